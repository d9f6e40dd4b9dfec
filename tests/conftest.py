"""What every test needs: one thread, since two OpenMP pools on two cores wait on each other."""

import torch

torch.set_num_threads(1)
