#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/predictions on machines that are never quiet, with a made-up clock and made-up probes, so that no test waits.

Waiting ends, each pair has a sample, and the reported disturbance is what the probes measured.
"""
import importlib.machinery
import importlib.util
import os
import sys
import types
import unittest

BENCH = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "bench"))


def load():
    sys.path.insert(0, BENCH)
    sys.dont_write_bytecode = True
    if importlib.util.find_spec("numpy") is None:
        sys.modules["numpy"] = types.ModuleType("numpy")
    loader = importlib.machinery.SourceFileLoader("predictions", os.path.join(BENCH, "predictions"))
    spec = importlib.util.spec_from_loader("predictions", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


predictions = load()


class Machine:
    """Each probe takes a second. After the survey its rates are those in `speeds`; the last one is repeated."""

    def __init__(self, survey, speeds):
        self.now, self.survey, self.speeds = 0.0, survey, list(speeds)

    def clock(self):
        return self.now

    def probe(self):
        self.now += 1
        if self.now <= self.survey:
            return [100.0]
        return [100.0 * (self.speeds.pop(0) if len(self.speeds) > 1 else self.speeds[0])]

    def work(self):
        self.now += 5
        return self.now

    def quiet(self):
        return predictions.Quiet(self.survey, self.probe, self.clock)


class Waiting(unittest.TestCase):
    def test_a_quiet_machine_has_as_many_turns_as_wanted(self):
        machine = Machine(10, [1.0])
        samples, repeats = machine.quiet().sample(machine.work, 3, 30, machine.now + 600)
        self.assertEqual((len(samples), repeats), (3, 0))
        self.assertTrue(all(slower < 0.01 for slower, _ in samples))

    def test_a_machine_that_is_never_quiet_gives_a_row_in_time(self):
        machine = Machine(10, [0.6])
        quiet = machine.quiet()
        samples, repeats = quiet.sample(machine.work, 3, 30, machine.now + 100)
        self.assertLess(machine.now, 10 + 100 + 10)
        self.assertTrue(samples)
        self.assertGreaterEqual(repeats, 0)
        self.assertTrue(all(abs(slower - 0.4) < 1e-9 for slower, _ in samples))

    def test_without_time_there_is_one_turn(self):
        machine = Machine(10, [0.6])
        samples, repeats = machine.quiet().sample(machine.work, 3, 30, machine.now)
        self.assertEqual((len(samples), repeats), (1, 0))

    def test_the_quietest_turns_count(self):
        machine = Machine(10, [0.95, 0.5, 0.95, 0.95, 0.5, 0.95, 1.0, 1.0, 1.0])
        samples, repeats = machine.quiet().sample(machine.work, 2, 30, machine.now + 600)
        self.assertEqual(len(samples), 2)
        self.assertTrue(all(slower < 0.1 for slower, _ in samples))
        self.assertGreaterEqual(repeats, 1)

    def test_a_survey_has_a_probe_at_least(self):
        self.assertEqual(Machine(1, [1.0]).quiet().rates, [100.0])


if __name__ == "__main__":
    unittest.main()
