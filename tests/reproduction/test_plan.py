import pytest

from benchmarks.speed.paper import STEPS_PER_SECOND
from reproduction.items import ITEMS, choose_items
from reproduction.plan import FULL, QUICK, SPEED_TABLES, Run, Scale, runs, speed_key, variants


def test_every_run_is_of_some_item_and_every_item_has_its_runs():
    needed = {key for item in ITEMS.values() for key in item.needs}
    assert needed == set(variants())


def test_every_config_can_be_made_and_no_two_variants_are_the_same_run():
    specs = {}
    for variant in variants().values():
        spec = str(Run(variant, 0).spec())
        assert spec not in specs, f"{variant.key} is {specs[spec]}"
        specs[spec] = variant.key


def test_the_full_plan_has_at_least_three_seeds_and_takes_at_most_six_hours_on_two_cores():
    learning = [variant for variant in variants(FULL).values() if variant.kind == "learning"]
    assert min(variant.seeds for variant in learning) >= 3
    assert sum(variant.seeds * variant.seconds for variant in learning) / 2 < 6 * 3600


def test_seeds_and_seconds_of_the_user_are_those_of_learning_runs():
    found = variants(Scale("mine", seeds=4, seconds=7.0))
    assert {(v.seeds, v.seconds) for v in found.values() if v.kind == "learning"} == {(4, 7.0)}
    assert {v.seeds for v in found.values() if v.kind == "speed"} == {1}
    assert {v.seeds for v in variants(QUICK).values() if v.kind == "learning"} == {1}


def test_a_rough_plan_spends_less_on_indexes():
    for key, variant in variants(QUICK).items():
        indexed = "recall" in variants(FULL)[key].arguments
        assert variant.arguments.get("build_seconds") == (QUICK.build_seconds if indexed else None)


def test_a_sweep_begins_with_the_first_seed_of_everything():
    seeds = [run.seed for run in runs(variants())]
    assert seeds == sorted(seeds)
    assert seeds.count(0) == len(variants())


def test_the_tables_have_a_cell_for_every_number_that_the_paper_prints():
    assert set(STEPS_PER_SECOND) == set(SPEED_TABLES)
    for task, printed in STEPS_PER_SECOND.items():
        assert tuple(printed) == SPEED_TABLES[task].ks
        for k, cells in printed.items():
            assert tuple(cells) == SPEED_TABLES[task].lookups
            assert all(speed_key(task, k, lookup) in variants() for lookup in cells)


def test_items_are_chosen_by_name():
    assert choose_items([]) == choose_items(["all"]) == list(ITEMS.values())
    assert choose_items(["lemma", "table-1"]) == [ITEMS["table-1"], ITEMS["lemma"]]
    with pytest.raises(ValueError, match="figure-1: there is no such item; give all, or some of figure-2"):
        choose_items(["figure-1"])
