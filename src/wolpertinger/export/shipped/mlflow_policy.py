"""The exported policy as `mlflow.pyfunc.load_model(FOLDER)` takes it."""

from policy import Policy


def _load_pyfunc(path):
    return _Model(path)


class _Model:
    def __init__(self, path):
        self.policy = Policy(path)

    def predict(self, model_input, params=None):
        """The best action in each state."""
        return self.policy.pick(model_input)
