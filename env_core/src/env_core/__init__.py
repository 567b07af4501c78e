"""What the sub-projects agree on: trajectories, observations, the environment, workspace and run directory.

Importing this package loads neither JAX nor torch nor Craftax. Its JAX corner is `env_core.craftax`.
"""

__version__ = "0.1.0"
