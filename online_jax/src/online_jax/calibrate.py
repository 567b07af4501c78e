"""Which way of computing the first layer is faster here: measured once per device and size, remembered in the cache."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

from env_core.observation import EMPTY_MOB, Layout, Packed, Pixels
from env_core.publish import write_json
from env_core.workspace import cache_directory
from online_jax import first_layer, narrowing
from online_jax.config import TrainConfig
from online_jax.first_layer import FORWARDS, Kernel

REPEATS = 5


def choose(config: TrainConfig, layout: Layout | Pixels) -> dict[str, Any]:
    """The settings `first_layer` and `narrow` with their `auto` replaced; on pixels, they do not matter."""
    if isinstance(layout, Pixels):
        return {"first_layer": "product", "narrow": "off"}
    return {
        "first_layer": fastest(config, layout) if config.network.first_layer == "auto" else config.network.first_layer,
        "narrow": _narrow() if config.network.narrow == "auto" else config.network.narrow,
    }


def _narrow() -> str:
    """Narrowing makes the host wait for a number from the device: free on a CPU, a stall where work is queued ahead."""
    return "on" if jax.default_backend() == "cpu" else "off"


def fastest(config: TrainConfig, layout: Layout) -> str:
    """The faster forward for a whole update: `num_steps` times acting, and every gradient step."""
    device = jax.devices()[0]
    sizes = [config.num_envs, config.steps_per_update // config.ppo.minibatches, config.network.width]
    what = [jax.__version__, device.platform, device.device_kind, layout.sha256, *map(str, sizes)]
    remembered = cache_directory("calibration") / f"{hashlib.sha256('|'.join(what).encode()).hexdigest()[:16]}.json"
    try:
        choice = json.loads(remembered.read_text())["forward"]
        if choice in FORWARDS:
            return str(choice)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or not by this version
    seconds = {forward: measure(config, layout, forward) for forward in FORWARDS}
    choice = min(seconds, key=seconds.__getitem__)
    write_json(remembered, {"forward": choice, "seconds": seconds, "what": what}, replace=True)
    return choice


def measure(config: TrainConfig, layout: Layout, forward: Any) -> float:
    """Seconds that the first layer's forward takes in one update."""
    key = jax.random.key(0)
    learning = min(narrowing.SIZES[0], layout.channels)
    acting = _seconds(key, layout, forward, config.num_envs, 2 * config.network.width, layout.channels)
    batch = config.steps_per_update // config.ppo.minibatches
    step = _seconds(key, layout, forward, batch, 2 * config.network.width, learning)
    return config.num_steps * acting + config.ppo.epochs * config.ppo.minibatches * step


def _seconds(key: jax.Array, layout: Layout, forward: Any, batch: int, width: int, channels: int) -> float:
    k_tile, k_map, k_scalar = jax.random.split(key, 3)
    kernel = Kernel(
        jax.random.normal(k_map, (channels, layout.tiles, width)),
        jax.random.normal(k_scalar, (layout.scalars, width)),
    )
    obs = Packed(
        jax.random.randint(k_tile, (batch, layout.tiles), 0, layout.codes).astype(jnp.uint8),
        jnp.full((batch, layout.mob_slots), EMPTY_MOB, jnp.uint16),
        jnp.zeros((batch, layout.scalars)),
    )
    run = jax.jit(lambda kernel, obs: first_layer.apply(kernel, obs, jnp.arange(channels), layout, forward))
    return _median_seconds(lambda: jax.block_until_ready(run(kernel, obs)))


def _median_seconds(run: Callable[[], Any]) -> float:
    run()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return median(times)
