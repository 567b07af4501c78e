"""`hatch run online:evaluate`: how good a trained policy is, in whole episodes, and what it looks like.

Read `evaluate` for the story; `measure.py` plays, `film.py` draws, `env_core.evaluation` does the statistics. What each
number means is said in docs/evaluation.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from env_core.errors import ConfigError, reported
from env_core.evaluation import Episodes, bootstrap, write_report, write_video
from env_core.evaluation.report import PICTURE_NAME, TEXT_NAME
from env_core.evaluation.tables import with_interval
from env_core.publish import write_json
from env_core.run import Progress, provenance
from online_jax.train import shown, use_compilation_cache

if TYPE_CHECKING:
    from env_core.craftax.make import Environment
    from online_jax.loading import Trained
    from online_jax.measure import Measured, Plan, Steps

PROGRAM = "hatch run online:evaluate"
POLICIES = {"sampled": False, "greedy": True}
"""Policy -> whether it takes the likeliest action, or draws from its distribution as in training."""
FOLDER = "evaluation"
SEEDS_NAME = "seeds.json"


@dataclass(frozen=True)
class Options:
    """How good a trained policy is: plays whole episodes, each in a world of its own, and says what came of them with \
95 % intervals. \
 \
Results go to <run>/evaluation/<checkpoint>/ (or --out): evaluation.json, evaluation.txt, evaluation.png, \
episodes-<policy>.npz, and videos where asked for. \
"""

    run: tyro.conf.Positional[Path]
    """Run directory, or one of its checkpoints."""
    episodes: int = 128
    """Episodes of each policy. Episode i is played in world i of --seed by whatever policy or checkpoint, so that \
evaluations can be compared world by world."""
    which: str = "best"
    """Checkpoint: `best` (highest return while training), `last` or a step."""
    policy: Literal["both", "sampled", "greedy"] = "both"
    """`sampled` draws actions as in training, `greedy` takes the likeliest."""
    seed: int = 0
    """Seed of the worlds, and of all that is random in them."""
    seed_index: int | None = None
    """Of a run of several seeds: which, from 0. Not given: all, each in seeds/<seed>/."""
    max_steps: int = 0
    """Steps after which an episode is truncated; 0: as in training."""
    num_envs: int = 0
    """Episodes played at once; 0: up to 64 on a CPU, all on an accelerator. Changes no result but by rounding."""
    video: int = 0
    """Films the first so many episodes of each policy: video-<policy>-<i>.mp4."""
    video_steps: int = 1000
    """Longest film, in steps; a longer episode is cut there."""
    fps: float = 10.0
    """Steps per second of a film."""
    gif: bool = False
    """Makes a .gif beside each .mp4."""
    out: Path | None = None
    """Where results go. Default: <run>/evaluation/<checkpoint>."""
    quiet: bool = False
    """Print nothing but errors."""


def main(argv: Sequence[str] | None = None) -> None:
    with reported():
        options = tyro.cli(Options, args=sys.argv[1:] if argv is None else argv, prog=PROGRAM)
        check(options)
        evaluate(options)


def check(options: Options) -> None:
    """Raises `ConfigError` for options that cannot be."""
    for name, least in {"episodes": 1, "seed": 0, "max_steps": 0, "num_envs": 0, "video": 0, "video_steps": 1}.items():
        value = getattr(options, name)
        if value < least:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; it must be at least {least}.")
    if options.video > options.episodes:
        raise ConfigError(f"--video {options.video} films more than --episodes {options.episodes}. Play more episodes.")
    if not 0 < options.fps <= 50:
        raise ConfigError(f"--fps is {options.fps}. Expected more than 0 and at most 50, such as 10.")


def evaluate(options: Options) -> None:
    """Plays, writes the report, films, and prints the table; each seed of the run after the other."""
    use_compilation_cache()
    policies = {name: greedy for name, greedy in POLICIES.items() if options.policy in (name, "both")}
    with Progress(0, quiet=options.quiet, unit="episodes") as progress:
        # Loads JAX, which takes seconds: only now that the options are known to be good.
        with progress.status("starting JAX and loading the policy"):
            from online_jax import assemble, loading
            from online_jax.devices import enough_memory
            from online_jax.measure import Measurer, Plan, limited, num_slots

            trained = loading.load(options.run, options.which)
            env = limited(trained, options.max_steps, assemble.make_environment)
        chosen = _chosen_seeds(options, trained)
        slots = options.num_envs or num_slots(options.episodes * len(policies))
        plan = Plan(options.episodes, policies, options.seed, slots, options.video)
        progress.total = len(chosen) * options.episodes * len(policies)
        progress.message(announcement(trained, plan))
        measurer = Measurer(trained.policy, env, plan, progress)
        base = options.out or trained.path.parent.parent / FOLDER / trained.path.name
        reports = {}
        for index in chosen:
            seed = trained.settings.seeds[index]
            with enough_memory(f"Play fewer at once than {slots}: --num-envs."):
                measured = measurer.play(trained.of_seed(index), about(options, trained, seed))
            folder = base if len(trained.settings.seeds) == 1 else base / "seeds" / str(seed)
            reports[seed] = write_report(folder, measured.episodes, seed=options.seed)
            if options.video:
                _film(options, trained, env, measured, folder, progress)
            progress.message(farewell(folder, measured.episodes))
            if not options.quiet:
                sys.stdout.write("\n" + (folder / TEXT_NAME).read_text())
        if len(chosen) > 1:
            _tell_of_all(options, base, reports)


def about(options: Options, trained: Trained, seed: int) -> dict[str, Any]:
    """What made the episodes, as it is saved with them."""
    made = provenance()
    return {
        "preset": trained.preset,
        "run": trained.path.parent.parent.name,
        "step": trained.checkpoint.step,
        "config_sha256": trained.checkpoint.config_sha256,
        "seed": seed,
        "worlds_seed": options.seed,
        "max_steps": options.max_steps or trained.settings.env.max_timesteps or None,
        **{name: made[name] for name in ("created_at", "git_revision", "packages")},
    }


def announcement(trained: Trained, plan: Plan) -> str:
    policies = " and ".join(plan.policies)
    return (
        f"{trained.preset} on {trained.settings.env_name} at step {trained.checkpoint.step:,} "
        f"({shown(trained.path)}): {plan.episodes:,} episodes, {policies}, {plan.num_slots} at once"
    )


def farewell(folder: Path, conditions: Mapping[str, Episodes]) -> str:
    """Where results are, and how many episodes a limit of steps stopped."""
    stopped = sum(int((~episodes.terminated).sum()) for episodes in conditions.values())
    limited = f" {stopped:,} episodes were truncated by the limit of steps." if stopped else ""
    return f"Done: {shown(folder / TEXT_NAME)}, picture: {shown(folder / PICTURE_NAME)}.{limited}"


def _chosen_seeds(options: Options, trained: Trained) -> Sequence[int]:
    """Places of the seeds to evaluate."""
    count, index = trained.settings.num_seeds, options.seed_index
    if index is None:
        return range(count)
    if not 0 <= index < count:
        raise ConfigError(f"--seed-index is {index}, but the run has {count} seeds. Expected 0 to {count - 1}.")
    return [index]


def _film(
    options: Options, trained: Trained, env: Environment, measured: Measured, folder: Path, progress: Progress
) -> None:
    """Writes video-<policy>-<i>.mp4, and .gif where asked for."""
    from env_core.craftax.render import frame
    from online_jax import assemble
    from online_jax.film import Projector, film

    streams = assemble.bonus(trained.settings, trained.env).streams
    mixed = trained.settings.bonus != "none" and streams.mix[0][1] != 0
    projector = Projector(env, frame(env.name, progress.status))
    for name, filmed in measured.steps.items():
        for number, steps in enumerate(filmed):
            title = film_title(trained, name, number, steps, options.video_steps)
            title += "; the value counts the bonus in, the return does not" if mixed else ""
            target = folder / f"video-{name}-{number}.mp4"
            with progress.status(f"filming {shown(target)}"):
                episode = film(projector, steps, options.video_steps, streams.gamma[0], title)
                write_video(target, episode, options.fps)
                if options.gif:
                    write_video(target.with_suffix(".gif"), episode, options.fps)


def film_title(trained: Trained, policy: str, number: int, steps: Steps, limit: int) -> str:
    """Says what is seen, and whether it is all of it."""
    length, total = len(steps.action), float(steps.reward.sum())
    cut = f", of which the first {limit:,}" if length > limit else ""
    return (
        f"{trained.preset}, step {trained.checkpoint.step:,}, {policy}, world {number}: "
        f"return {total:.1f} in {length:,} steps{cut}"
    )


def _tell_of_all(options: Options, base: Path, reports: Mapping[int, Mapping[str, Any]]) -> None:
    """seeds.json: each policy's mean return by seed, and its mean over seeds with an interval over them."""
    told, lines = {}, [""]
    for name in next(iter(reports.values()))["conditions"]:
        means = {seed: one["conditions"][name]["return_mean"]["value"] for seed, one in reports.items()}
        over_seeds = bootstrap(list(means.values()), seed=options.seed).as_json()
        told[name] = {"return_mean": {str(seed): value for seed, value in means.items()}, "over_seeds": over_seeds}
        lines.append(f"{name}: return {with_interval(over_seeds)}, mean and 95 % interval over {len(means)} seeds\n")
    write_json(base / SEEDS_NAME, told, replace=True)
    if not options.quiet:
        sys.stdout.write("\n".join(lines))


if __name__ == "__main__":
    main()
