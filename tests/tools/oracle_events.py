#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks an event file of 'autohete report LOG --tensorboard DIR' with TensorBoard's own reader.

    oracle_events.py DIR LOG        needs the Python package 'tensorboard'
"""
import json
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

CURVES = {"train/loss": ("step", "loss"), "train/learning_rate": ("step", "lr"), "train/gradient_norm": ("step", "grad_norm"),
          "speed/tokens_per_s": ("step", "tokens_per_s"), "valid/loss": ("evaluation", "loss")}


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def main():
    folder, log = sys.argv[1:]
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for tag, (kind, key) in CURVES.items():
        expected = [(line["step"], single(line[key])) for line in lines if line.get("line") == kind and key in line]
        found = [(event.step, event.value) for event in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []
        assert found == expected, f"{tag}: {found[:3]} is not {expected[:3]}"
        print(tag, len(found))


if __name__ == "__main__":
    main()
