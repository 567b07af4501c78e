"""Online reinforcement learning on Craftax: one PPO loop whose variants fill its slots. Start at `ppo.py`."""

__version__ = "0.1.0"
