#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a run's log to Weights & Biases, while the run goes on or after it.

    python3 bridge.py run.ndjson [--project NAME] [--name NAME] [--once]
"""
import argparse
import json
import os
import time

import wandb

STEP = {"loss": "loss", "lr": "rate", "grad_norm": "grad_norm", "tokens_per_s": "tokens_per_s", "step_us": "step_us"}


def events(path, once):
    """Yields the lines of the log up to its end, and waits for the next one unless `once`."""
    while not once and not os.path.exists(path):
        time.sleep(0.5)
    with open(path, encoding="utf-8") as file:
        text, ended = "", False
        while True:
            text += file.readline()
            if text.endswith("\n"):
                event, text = json.loads(text), ""
                ended = event.get("line") == "end"  # a resumed run goes on in the same log
                yield event
            elif once or (ended and not text):
                return
            else:
                time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--project", default="autohete")
    parser.add_argument("--name")
    parser.add_argument("--once", action="store_true", help="send what is in the log, and do not wait for its end")
    given = parser.parse_args()
    run = None
    for event in events(given.log, given.once):
        if run is None:  # the header: model, device, and what decides the result
            run = wandb.init(project=given.project, name=given.name,
                             config={key: event[key] for key in ("model", "device", "policy", "numeric_signature") if key in event})
            run.define_metric("*", step_metric="step")
        elif event["line"] == "step":
            run.log({"step": event["step"], **{name: event[key] for key, name in STEP.items() if key in event}})
        elif event["line"] == "evaluation":
            run.log({"step": event["step"], "held_out_loss": event["loss"]})
        elif event["line"] == "end":
            run.summary["reason"] = event["reason"]
    if run:
        run.finish()


main()
