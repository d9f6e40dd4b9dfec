"""A command that trains for a moment."""

TINY = ["train", "recommender", "--items", "49", "--dim", "4", "--steps", "400", "--envs", "8"]
