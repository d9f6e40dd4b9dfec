def fit_actions(actions, env):
    if actions is None:
        actions = env.get_attr("actions", indices=[0])[0]
    return actions
