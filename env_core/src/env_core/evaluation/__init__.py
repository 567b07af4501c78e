"""What an evaluation says, in the same numbers and files for every member: numpy in, numbers, tables and pictures out.

    <folder>/
      evaluation.json            every number with its 95 % interval, for each condition
      evaluation.txt             the same as a table
      evaluation.png             returns, lengths, floors and achievements, drawn
      episodes-<condition>.npz   what all that was made of, one row for each episode

Groups of training runs are compared from their metrics (`comparison.py`), into comparison.json, .txt and .png.

Start reading at `report.py`; what an interval is stands in `statistics.py`. Pictures need the extra `plots`, videos the
extra `video`.
"""

from env_core.evaluation.comparison import Comparison, Group, compare
from env_core.evaluation.comparison_report import write_comparison
from env_core.evaluation.episodes import Episodes
from env_core.evaluation.report import table, write_report
from env_core.evaluation.statistics import (
    Interval,
    bootstrap,
    interquartile_mean,
    paired,
    probability_of_improvement,
)
from env_core.evaluation.summary import summarise
from env_core.evaluation.video import Film, write_video

__all__ = [
    "Comparison",
    "Episodes",
    "Film",
    "Group",
    "Interval",
    "bootstrap",
    "compare",
    "interquartile_mean",
    "paired",
    "probability_of_improvement",
    "summarise",
    "table",
    "write_comparison",
    "write_report",
    "write_video",
]
