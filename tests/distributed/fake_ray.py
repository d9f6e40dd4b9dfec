"""What our code uses of Ray, in this process: what is sent is pickled, actors can be killed, all goes in order."""

import pickle
from types import SimpleNamespace


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class ActorDiedError(RayError):
    pass


class Ref:
    """A value, or work that is done when somebody waits for it."""

    def __init__(self, work, actor=None):
        self.work, self.actor, self.done, self.error, self.value = work, actor, False, None, None

    def settle(self):
        if not self.done:
            self.done = True
            for earlier in [] if self.actor is None else self.actor.take_before(self):
                earlier.settle()
            try:
                self.value = self.work()
            except RayError as error:
                self.error = error
            except Exception as error:
                # Ray raises an error that is also of the class of its cause.
                both = type(f"RayTaskError({type(error).__name__})", (RayTaskError, type(error)), {})
                self.error = both(*error.args)
                self.error.cause = error
        return self


class Actor:
    def __init__(self, ray, cls, arguments):
        self.ray, self.alive, self.hangs = ray, not ray.stillborn, ray.hanging
        self.instance, self.queue = cls(*sent(arguments)), []

    def take_before(self, ref):
        """What an actor was asked before it is asked this: its calls go in order."""
        place = self.queue.index(ref) if ref in self.queue else 0  # a test may make an answer of its own
        before, self.queue = self.queue[:place], [own for own in self.queue[place:] if own is not ref]
        return before

    def __getattr__(self, name):
        def remote(*arguments):
            def work():
                if not self.alive:
                    raise ActorDiedError("the actor is dead")
                self.ray.calls.append((self, name))
                return sent([getattr(self.instance, name)(*sent(arguments))])[0]

            self.queue.append(Ref(work, self))
            return self.queue[-1]

        return SimpleNamespace(remote=remote)


def sent(arguments):
    """Values as they arrive."""
    values = [part.settle().value if isinstance(part, Ref) else part for part in arguments]
    return pickle.loads(pickle.dumps(values))


class FakeRay:
    """A cluster of one thread."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, ActorDiedError=ActorDiedError)

    def __init__(self):
        self.actors, self.calls, self.options_given = [], [], []
        self.stillborn = self.hanging = False
        """Whether actors that are made from now on are dead, or never answer."""

    def is_initialized(self):
        return True

    def remote(self, cls):
        def make(*arguments):
            self.actors.append(Actor(self, cls, arguments))
            return self.actors[-1]

        def options(**given):
            self.options_given.append(given)
            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)

    def put(self, value):
        return Ref(lambda: value).settle()

    def get(self, ref, timeout=None):
        if isinstance(ref, list):
            return [self.get(each) for each in ref]
        if ref.settle().error is not None:
            raise ref.error
        return ref.value

    def wait(self, refs, num_returns=1, timeout=None):
        for ref in refs:
            if ref.actor is None or not ref.actor.hangs or not ref.actor.alive:
                ref.settle()
                return [ref], [other for other in refs if other is not ref]
        return [], list(refs)

    def kill(self, actor):
        actor.alive = False
