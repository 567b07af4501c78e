"""The run directory, and what a long-running program shows of itself.

    <run>/
      config.json      configuration and provenance: git revision, package versions, command; every resumption
      metrics.jsonl    one JSON object per line: step, time and the metrics of that step
      curves.png       drawn from metrics.jsonl alone
      checkpoints/     the trainer's
      lock             held by the process that writes; freed by its end, however it ends

Start reading at `directory.py`.
"""

from env_core.run.curves import plot_curves
from env_core.run.directory import Run
from env_core.run.metrics import MetricsLog, read_metrics
from env_core.run.progress import Progress
from env_core.run.provenance import config_sha256, git_revision, provenance
from env_core.run.shutdown import ShutdownSignal

__all__ = [
    "MetricsLog",
    "Progress",
    "Run",
    "ShutdownSignal",
    "config_sha256",
    "git_revision",
    "plot_curves",
    "provenance",
    "read_metrics",
]
