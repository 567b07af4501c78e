"""What follows `online:train`: a preset is a name for a few settings. Nothing here loads JAX.

Every slot can be set by itself, too, so that what no preset names is a flag away: `ppo-rnd --network.memory gru`.
"""

from __future__ import annotations

from typing import Any

BONUSES: dict[str, str] = {
    "none": "online_jax.intrinsic.none:none",
    "rnd": "online_jax.intrinsic.rnd:rnd",
    "icm": "online_jax.intrinsic.icm:icm",
    "e3b": "online_jax.intrinsic.e3b:e3b",
}
"""--bonus -> where its function `Ingredients -> IntrinsicReward` is. Each has a preset, `ppo-<name>`."""

PRESETS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "ppo-rnn": {"network.memory": "gru"},
    **{f"ppo-{name}": {"bonus": name} for name in BONUSES if name != "none"},
    "ppo-pixel": {"env_name": "Craftax-Pixels-v1", "ppo.gae_lambda": 0.95},
}
"""Preset -> the settings, by dotted name, that it changes; what the user says comes on top."""
