"""Tests of random pipelines against an oracle: change one source column and see which outputs change.

Every output column that changes must be reported to depend on the column that was changed.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import error_counts, reset_errors

PIPELINES = 300
BATCH_SIZE = 30
ROWS = 24

# Errors of pandas for a step that does not fit the frame or its data.
STEP_ERRORS = (KeyError, ValueError, TypeError, IndexError, AttributeError, SyntaxError)

# {n} and {m} are numeric columns, {k} is any column, {i} makes names unique, {v} is a number.
STEPS = (
    "out = out[out['{n}'] > {v}]",
    "out = out[(out['{n}'] > {v}) | (out['{m}'] < {v})]",
    "out = out.query('`{n}` > {v}')",
    "out = out.loc[out['{n}'].isin(b['w'].round())]",
    "out = out[~out['{k}'].duplicated()]",
    "out = out.assign(z{i}=out['{n}'] * 2 + out['{m}'])",
    "out = out.assign(z{i}=lambda d: d['{n}'].rank() - d['{m}'])",
    "out['z{i}'] = out['{n}'].where(out['{m}'] > {v}, out['{n}'] + 1)",
    "out['z{i}'] = np.where(out['{n}'] > {v}, out['{m}'], 0.5)",
    "out['z{i}'] = out['{n}'].fillna(out['{m}'])",
    "out['z{i}'] = out['{n}'] - out['{m}'].mean()",
    "out['z{i}'] = out['{n}'].sum() * 2",
    "out['z{i}'] = [value + 1 for value in out['{n}']]",
    "out['z{i}'] = out['{n}'].to_numpy() + out['{m}'].to_numpy()",
    "out['z{i}'] = out.groupby('{k}')['{n}'].transform('sum')",
    "out['z{i}'] = out.groupby('{k}')['{n}'].cumsum()",
    "out['z{i}'] = out['{n}'].rolling(3, min_periods=1).mean()",
    "out['z{i}'] = out['k'].map(b.drop_duplicates('k').set_index('k')['w'])",
    "out['z{i}'] = out.apply(lambda row: row['{n}'] + row['{m}'], axis=1)",
    "out['z{i}'] = out['{k}'].astype(str).str.len()",
    "out['z{i}'] = pd.cut(out['{n}'], [-1e9, 0, 1e9], labels=False)",
    "out.loc[out['{n}'] > {v}, '{m}'] = 0.25",
    "out = out.merge(b, on='k', how='left', suffixes=('', '_b{i}'))",
    "out = out.merge(b, on='k', how='inner', suffixes=('', '_b{i}'))",
    "out = out.merge(b[b['w'] > {v}], on='k', how='outer', suffixes=('', '_b{i}'))",
    "out = out.join(b.groupby('k')[['w']].mean().add_suffix('_m{i}'), on='k')",
    "out = out.groupby('{k}', as_index=False)[['{n}', '{m}']].sum() if '{n}' != '{m}' else out",
    "out = out.groupby('k').agg(a{i}=('{n}', 'max'), c{i}=('{m}', 'count')).reset_index()",
    "out = out.groupby('k')['{n}'].mean().reset_index()",
    "out = out.sort_values('{n}').head(7)",
    "out = out.nlargest(6, '{n}')",
    "out = out.drop_duplicates(subset=['{k}'])",
    "out = out.dropna(subset=['{n}'])",
    "out = out.rename(columns={{'{n}': 'r{i}'}})",
    "out = out.drop(columns=['{n}'])",
    "out = pd.concat([out, out[out['{n}'] > {v}]], ignore_index=True)",
    "out = pd.concat([out, b[['k', 'w']]], ignore_index=True)",
    "out = out.set_index('k').reset_index()",
    "out = out.melt(id_vars=['k'], value_vars=['{n}'], value_name='v{i}')",
    "out = out.pivot_table(index='k', values='{n}', aggfunc='sum').reset_index()",
    "out = out['{k}'].value_counts().reset_index()",
    "out = out.select_dtypes('number').diff().assign(k=out['k'])",
    "out = out.drop(out.index[out['{n}'] > {v}])",
    "out = out[out['{n}'] > out['{m}'].mean() + {v}]",
    "out['z{i}'] = out['{n}'] / (b['w'].max() - b['w'].min())",
    "out['z{i}'] = out['{n}'].mask(lambda column: column > {v}, out['{m}'])",
    "out['z{i}'] = out['{n}'].case_when([(out['{m}'] > 0, out['{m}']), (lambda column: column > 0, 5.0)])",
    "out['z{i}'] = out['k'].map(dict(zip(b['k'], b['w'])))",
    "out['z{i}'] = [row['{n}'] for _, row in out.iterrows()]",
    "out['z{i}'] = out.groupby('k')['{n}'].rank()",
    "out = out.fillna({{'{n}': out['{m}'].max()}})",
    "out.loc[out['{n}'].idxmax(), '{m}'] = 9.5",
    "out = out.loc[out.groupby('k')['{n}'].idxmax().dropna()]",
    "out = out.groupby('k')['{n}'].nlargest(1).reset_index(level=0)",
    "out = out.groupby('k')['{n}'].agg(['sum', 'size']).reset_index()",
    "out = pd.crosstab(out['k'], out['{n}'] > 0).add_prefix('c{i}_').reset_index()",
    "out = (out.groupby('k')['{n}'].sum() - b.groupby('k')['w'].sum()).rename('d{i}').reset_index()",
    "out = out.merge(b.groupby('k')['w'].max().rename('x{i}'), left_on='k', right_index=True)",
    "out = out.set_index('k').sort_index().reset_index()",
    "out = out.set_index('k').loc[lambda d: d.index > 1].reset_index()",
    "out = out.set_index('k').loc[lambda d: d.index.isin(b['k'])].reset_index()",
    "out = out.iloc[np.where(out['{n}'] > {v})[0]]",
    "out = out.loc[out['{n}'].nlargest(5).index]",
    "out = out.reindex(b['k'].clip(0, len(out) - 1)).reset_index(drop=True)",
    "out = pd.concat(part.assign(m{i}=part['{n}'].max()) for _, part in out.groupby('k'))",
    "out = pd.DataFrame([[row['k'], row['{n}'] + 1] for _, row in out.iterrows()], columns=['k', 'n{i}'])",
    # Windows and order.
    "out['z{i}'] = out['{n}'].shift(1) + out['{m}'].diff()",
    "out['z{i}'] = out['{n}'].ewm(span=3).mean() - out['{m}'].expanding().max()",
    "out['z{i}'] = out['{n}'].cummax().clip(lower=out['{m}'])",
    "out['z{i}'] = out.groupby('k')['{n}'].rolling(2, min_periods=1).sum().reset_index(level=0, drop=True)",
    "out['z{i}'] = out.groupby('k')['{n}'].shift() - out.groupby('k')['{m}'].bfill()",
    "out['z{i}'] = out.groupby('k').cumcount() + out.groupby('k').ngroup()",
    "out['z{i}'] = out.groupby('k')['{n}'].transform(lambda s: s.max() - b['u'].min())",
    "out[['z{i}', 'y{i}']] = out[['{n}', '{m}']].rolling(2, min_periods=1).max() if '{n}' != '{m}' else 0",
    "out = out.set_index(pd.to_datetime(out['k'], unit='D').rename('at')).resample('2D')[['{n}']].sum().reset_index()",
    "out['z{i}'] = out[['{n}', '{m}']].ffill(axis=1).iloc[:, -1]",
    "out['z{i}'] = out[['{n}', '{m}']].cumsum(axis=1).iloc[:, 1]",
    # Reshaping.
    "out = out[['k', '{n}', '{m}']].set_index('k').stack().rename('s{i}').reset_index()[['k', 's{i}']]",
    "out = out.pivot_table(index='k', values=['{n}', '{m}'], aggfunc=['sum', 'max'])",
    "out = out.groupby(['k', out['{n}'] > 0])['{m}'].sum().unstack(fill_value=0).add_prefix('u{i}_').reset_index()",
    "out = out.drop_duplicates('k').pivot(index='k', columns='g', values='{n}').add_prefix('p{i}_').reset_index()",
    "out = out.assign(e{i}=[[x, x + 1] for x in out['{n}']]).explode('e{i}')",
    "out = out.melt(id_vars=['k'], value_vars=['{n}', '{m}'])[['k', 'value']] if '{n}' != '{m}' else out",
    "out = pd.get_dummies(out[['k', '{n}']].assign(s=out['{n}'] > 0), columns=['s'], prefix='d{i}')",
    "out = pd.crosstab(out['k'], out['{m}'] > 0, values=out['{n}'], aggfunc='sum').add_prefix('c{i}_').reset_index()",
    "out = out.describe()[['{n}']].reset_index(drop=True).assign(k=1)",
    "out = out[['{n}', '{m}']].agg(['min', 'max']).assign(k=[1, 2])",
    # Setting columns and cells.
    "out.insert(0, 'z{i}', out.pop('{n}') * 2)",
    "out.isetitem(out.shape[1] - 1, out['{n}'] + out['{m}'])",
    "out.iloc[0, out.columns.get_loc('{n}')] = out['{m}'].max()",
    "out.at[out.index[0], '{n}'] = out['{m}'].iloc[-1] * 2",
    "out.loc[out['{n}'] > {v}, '{m}'] += 1",
    "out.loc[:, '{n}'] = out['{m}'].abs()",
    "out[['{n}', '{m}']] = out[['{m}', '{n}']].values if '{n}' != '{m}' else 0",
    "out['{n}'], out['{m}'] = out['{m}'] + 1, out['{n}'] * 2",
    "out[['{n}']] = out[['{n}']].mask(out[['{n}']] > {v}, -1)",
    "out.update(b[['w']].rename(columns={{'w': '{n}'}}))",
    "out = out.combine_first(b[['w']].rename(columns={{'w': '{n}'}}))",
    "out.columns = [f'{{label}}_{i}' if label == '{n}' else label for label in out.columns]",
    # Conditions, lookups and values that leave pandas.
    "out['z{i}'] = np.select([out['{n}'] > 0, out['{m}'] > {v}], [out['{m}'], out['{n}'] * 2], default=0.5)",
    "out['z{i}'] = np.where(out['{n}'].to_numpy() > {v}, out['{m}'], out['{n}']) * 2",
    "out['z{i}'] = out['{n}'] * (out['{m}'].to_numpy() - 1)",
    "out['z{i}'] = out['k'].map({{0: 1.5, 1: 2.5, 2: 0.5}}).fillna(out['{n}'])",
    "out['z{i}'] = out['k'].replace(dict(zip(b['k'], b['w'].round(3))))",
    "out['z{i}'] = pd.qcut(out['{n}'].rank(method='first'), 3, labels=False)",
    "out['z{i}'] = pd.cut(out['{n}'], np.sort(np.unique(b['w'])), labels=False)",
    "out['z{i}'] = out['{n}'].between(out['{m}'], out['{m}'] + 1).astype(int)",
    "out['z{i}'] = [b.loc[b['k'] == key, 'w'].sum() for key in out['k']]",
    "out['z{i}'] = [row.{n} if row.k > 1 else 0.0 for row in out.itertuples()]",
    "out['z{i}'] = out[['{n}', '{m}']].apply(lambda column: column - b['w'].mean()).sum(axis=1)",
    "out['z{i}'] = out[['{n}', '{m}']].to_numpy()[:, 0]",
    "out = pd.DataFrame({{'k': out['k'].tolist(), 'l{i}': out['{n}'].tolist()}})",
    "out = pd.DataFrame([{{'k': key, 't{i}': part['{n}'].sum()}} for key, part in out.groupby('k')])",
    "out = pd.DataFrame(out[['k', '{n}']].to_numpy(), columns=['k', 'q{i}'])",
    "factor = b['w'].max(); out = out.eval('z{i} = `{n}` * @factor')",
    "limit = b['u'].mean(); out = out.query('`{n}` < @limit')",
    "out = out.assign(z{i}=pd.col('{n}') - pd.col('{m}').max())",
    # Joins and groups.
    "out = out.merge(b.set_index('k')[['w']].rename(columns={{'w': 'w{i}'}}), left_on='k', right_index=True)",
    "out = out.merge(b, left_on='k', right_on='k', how='right', suffixes=('', '_r{i}'))",
    "out = out.merge(b.head(2)[['u']].rename(columns={{'u': 'u{i}'}}), how='cross')",
    "out = out.merge(b[['k']].drop_duplicates(), on='k', how='left', indicator='_m{i}').assign(f=1.0)",
    "out = pd.merge_asof(out.sort_values('k'), b.sort_values('k'), on='k', suffixes=('', '_s{i}'))",
    "out = pd.concat([out, b['w'].rename('w{i}')], axis=1).dropna(subset=['k'])",
    "out = out.select_dtypes('number').add(b[['w']].rename(columns={{'w': '{n}'}}), fill_value=0)",
    "out = out.groupby('k').agg({{'{n}': ['min', 'max']}}); out.columns = ['lo{i}', 'hi{i}']; out = out.reset_index()",
    "out = out.groupby('k').filter(lambda part: part['{n}'].max() > {v})",
    "out = out.groupby('k').nth(0).sort_values('{n}')",
    "out = out.groupby('k')[['{n}']].apply(lambda part: part.sum() * b['w'].max()).reset_index()",
    "out = out.groupby('k', as_index=False).first()",
    "out = out[out['k'].isin(out['k'].value_counts().head(3).index)]",
    "out = out.loc[out['{n}'].sort_values().index[:6]]",
    "out = out.sample(frac=0.7, random_state=1)",
    "out = out[out['{n}'] > out.groupby('k')['{n}'].transform('mean')]",
)


class Pipeline(NamedTuple):
    """Generated code that runs, and its output."""

    code: str
    output: pd.DataFrame


def source_frames(perturbed: tuple[str, str] | None = None) -> dict[str, pd.DataFrame]:
    """Return the two source frames, optionally with one column changed."""
    rng = np.random.default_rng(3)
    a = pd.DataFrame({"k": rng.integers(0, 6, ROWS), "x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS)})
    a["g"] = rng.choice(["p", "q", "r"], ROWS)
    a.loc[::7, "y"] = np.nan
    b = pd.DataFrame({"k": rng.integers(0, 8, 10), "w": rng.normal(size=10) * 2, "u": rng.normal(size=10)})
    frames = {"a": a, "b": b}
    if perturbed is not None:
        frame, column = perturbed
        frames[frame] = frames[frame].assign(**{column: _perturb(frames[frame][column])})
    return frames


def _perturb(column: pd.Series) -> pd.Series:
    """Return other values of the same type."""
    values = np.roll(column.to_numpy(), 1)[::-1]
    return pd.Series(values * 1.5 + 0.1 if values.dtype.kind == "f" else values, index=column.index)


def generate_pipeline(rng: random.Random) -> Pipeline:
    namespace: dict[str, Any] = {"pd": pd, "np": np, **source_frames()}
    lines = ["out = a.copy()"]
    exec(lines[0], namespace)
    for number in range(rng.randint(2, 6)):
        line = _choose_step(rng, namespace["out"], number)
        trial = {**namespace, "out": namespace["out"].copy()} if line else {}
        try:
            exec(line, trial)
        except STEP_ERRORS:
            continue
        if line and len(trial["out"]) > 0 and len(trial["out"].columns) and trial["out"].columns.is_unique:
            namespace = trial
            lines.append(line)
    return Pipeline("\n".join(lines), namespace["out"])


def _choose_step(rng: random.Random, out: pd.DataFrame, number: int) -> str:
    numeric = [label for label in out.columns if out[label].dtype.kind in "if" and label != "k"]
    if not numeric:
        return ""
    values = {"n": rng.choice(numeric), "m": rng.choice(numeric), "k": rng.choice(list(out.columns)), "i": number}
    return rng.choice(STEPS).format(**values, v=round(rng.uniform(-1, 0.5), 2))


def run(code: str, frames: dict[str, pd.DataFrame]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"pd": pd, "np": np, **frames}
    exec(compile(code, "<pipeline>", "exec"), namespace)
    return namespace


def captured_sources(code: str) -> dict[str, set[tuple[str, str]]]:
    """Return the captured sources of every output column, including those of the whole frame."""
    frames = source_frames()
    tokens = [clew.version(frame, name=name) for name, frame in frames.items()]
    output = run(code, frames)["out"]
    edges = clew.lineage(output, until=tokens).edges()
    frame_sources = {(edge.source, str(edge.source_column)) for edge in edges if edge.column is None}
    columns = {str(label): set(frame_sources) for label in output.columns}
    for edge in edges:
        if edge.column is not None:
            columns.setdefault(str(edge.column), set(frame_sources)).add((edge.source, str(edge.source_column)))
    return columns


def changed_columns(before: pd.DataFrame, after: pd.DataFrame) -> set[str]:
    if list(before.columns) != list(after.columns):
        return set()
    return {str(label) for label in before.columns if not _is_equal(before[label], after[label])}


def _is_equal(left: pd.Series, right: pd.Series) -> bool:
    left, right = left.reset_index(drop=True), right.reset_index(drop=True)
    if left.dtype.kind == right.dtype.kind == "f" and len(left) == len(right):
        # The same sum may differ in its last digit between runs.
        return bool(np.allclose(left, right, rtol=1e-9, atol=0, equal_nan=True))
    return bool(left.equals(right))


@pytest.mark.parametrize("first_seed", range(0, PIPELINES, BATCH_SIZE))
@pytest.mark.filterwarnings("ignore")
def test_no_dependency_is_missed(first_seed: int) -> None:
    clew.track()
    reset_errors()
    change_count = 0
    for seed in range(first_seed, first_seed + BATCH_SIZE):
        pipeline = generate_pipeline(random.Random(seed))
        captured = captured_sources(pipeline.code)
        for frame, source_frame in source_frames().items():
            for column in source_frame.columns:
                try:
                    after = run(pipeline.code, source_frames((frame, column)))["out"]
                except STEP_ERRORS:
                    continue
                changed = changed_columns(pipeline.output, after)
                missed = {label for label in changed if (frame, column) not in captured[label]}
                assert not missed, f"seed {seed}: {missed} change with {frame}.{column}\n{pipeline.code}"
                change_count += len(changed)
    assert change_count > BATCH_SIZE, "too few changes for a meaningful test"
    assert error_counts() == {}
