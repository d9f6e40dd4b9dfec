"""What every test needs: one thread, since two OpenMP pools on two cores wait on each other; windows nobody sees."""

import os

import torch

torch.set_num_threads(1)
os.environ["SDL_VIDEODRIVER"] = "dummy"
