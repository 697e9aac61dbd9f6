//! Methods of live arrays that the host implements itself; `delegate` provides all others.

use super::alike::report_item;
use super::convert::{copied, error, json_of, live, misplaced, written};
use super::handle::{List, Shape, method, pure};
use super::map::{AT, COPIES, COPY, FINDS};
use crate::budget;
use rhai::{Dynamic, EvalAltResult, INT, Module, NativeCallContext};
use std::ops::{Range, RangeInclusive};
use valvehouse_json::{Array, Json};

type Answer<T> = Result<T, Box<EvalAltResult>>;

impl List {
    fn new(shape: Shape, items: Vec<Json>) -> Self {
        Self { shape, array: Array::new(items) }
    }

    fn element(&self, json: &Json) -> Dynamic {
        live(json, self.shape.below_index())
    }

    /// Returns the elements as a native array; nested containers stay live.
    pub fn elements(&self) -> rhai::Array {
        self.array.items().iter().map(|item| self.element(item)).collect()
    }

    /// Returns the elements of a range, live.
    fn slice(&self, start: INT, end: INT) -> Self {
        let items = self.array.items();
        Self::new(self.shape, items[places(start, end, items.len())].to_vec())
    }

    fn position(&self, index: INT) -> Answer<usize> {
        self.array.position(index).ok_or_else(|| {
            error(format!("index {index} is out of range: the array has {} elements", self.array.len()))
        })
    }
}

/// Returns the positions of a range in a list or text of this length. As in Python, a range is truncated to the list,
/// and a negative index counts from the end.
pub(crate) fn places(start: INT, end: INT, length: usize) -> Range<usize> {
    let place = |index: INT| match usize::try_from(index) {
        Ok(index) => index.min(length),
        Err(_) => length.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let start = place(start);
    start..place(end).max(start)
}

/// Returns the end of a range that includes this index: `..=-1` ends with the last element.
pub(crate) fn after(last: INT) -> INT {
    if last == -1 { INT::MAX } else { last.saturating_add(1) }
}

pub(super) fn register(module: &mut Module) {
    module.set_custom_type::<List>("array");

    for name in ["len", "get$len"] {
        pure(name).set_into_module(module, |list: &mut List| list.array.len() as INT);
    }
    for name in ["is_empty", "get$is_empty"] {
        pure(name).set_into_module(module, |list: &mut List| list.array.is_empty());
    }
    pure("index$get$").set_into_module(module, |list: &mut List, index: INT| -> Answer<Dynamic> {
        let position = list.position(index)?;
        Ok(list.array.get(position).map_or(Dynamic::UNIT, |item| list.element(&item)))
    });
    // `messages[-4..]`, `messages[1..3]`
    pure("index$get$")
        .set_into_module(module, |list: &mut List, range: Range<INT>| list.slice(range.start, range.end));
    pure("index$get$").set_into_module(module, |list: &mut List, range: RangeInclusive<INT>| {
        list.slice(*range.start(), after(*range.end()))
    });
    pure("index$set$").set_into_module(module, |list: &mut List, index: INT, value: Dynamic| -> Answer<()> {
        let position = list.position(index)?;
        list.array.set(position, json_of(&value)?).map_err(misplaced)
    });
    register_additions(module);
    register_removals(module);
    register_sums(module);
    for name in ["to_string", "to_debug", "to_json", "print", "debug"] {
        pure(name).set_into_module(module, |list: &mut List| written(&list.array.clone().into()));
    }
    module.set_iter(std::any::TypeId::of::<List>(), |list: Dynamic| {
        let list = list.cast::<List>();
        Box::new(list.elements().into_iter())
    });
}

/// Registers what adds elements to a list.
fn register_additions(module: &mut Module) {
    for name in ["push", "+="] {
        pure(name).set_into_module(module, |list: &mut List, value: Dynamic| -> Answer<()> {
            list.array.push(json_of(&value)?).map_err(misplaced)
        });
    }
    // `list += [a, b]` appends the elements, as for native arrays.
    pure("+=").set_into_module(module, |list: &mut List, other: rhai::Array| extend(list, other));
    for name in ["append", "extend"] {
        pure(name).set_into_module(module, |list: &mut List, other: rhai::Array| extend(list, other));
    }
    for name in ["append", "extend", "+="] {
        pure(name).set_into_module(module, |list: &mut List, other: List| -> Answer<()> {
            other.array.items().into_iter().try_for_each(|item| list.array.push(item)).map_err(misplaced)
        });
    }
    // As in Python, any other value becomes an element.
    pure("append").set_into_module(module, |list: &mut List, value: Dynamic| -> Answer<()> {
        list.array.push(json_of(&value)?).map_err(misplaced)
    });
    pure("append").set_into_module(module, |own: &mut rhai::Array, value: Dynamic| own.push(value));
    let extend = &["list: &mut Array", "other: array", "()"];
    method("extend", extend, "Adds the elements of another list, as `append` does.")
        .set_into_module(module, |own: &mut rhai::Array, other: rhai::Array| own.extend(other));
    // A native array also accepts the elements of a live one.
    for name in ["append", "extend", "+="] {
        pure(name).set_into_module(module, |own: &mut rhai::Array, other: List| own.extend(other.elements()));
    }
    pure("insert").set_into_module(module, |list: &mut List, index: INT, value: Dynamic| -> Answer<()> {
        let len = list.array.len();
        let position = match index {
            negative if negative < 0 => len.saturating_sub(negative.unsigned_abs() as usize),
            positive => (positive as usize).min(len),
        };
        list.array.insert(position, json_of(&value)?).map_err(misplaced)
    });
}

/// Registers what removes elements from a list.
fn register_removals(module: &mut Module) {
    for name in ["remove", "pop"] {
        pure(name).set_into_module(module, |list: &mut List, index: INT| -> Answer<Dynamic> {
            let position = list.position(index)?;
            Ok(list.array.remove(position).map_or(Dynamic::UNIT, |item| list.element(&item)))
        });
    }
    // An element that is not there is `()`, as with `remove` of native arrays.
    pure("pop").set_into_module(module, |own: &mut rhai::Array, index: INT| {
        let end = if index == -1 { INT::MAX } else { index.saturating_add(1) };
        own.splice(places(index, end, own.len()), []).next().unwrap_or(Dynamic::UNIT)
    });
    pure("pop").set_into_module(module, |list: &mut List| {
        let last = list.array.len().checked_sub(1);
        last.and_then(|last| list.array.remove(last)).map_or(Dynamic::UNIT, |item| list.element(&item))
    });
    pure("shift").set_into_module(module, |list: &mut List| {
        list.array.remove(0).map_or(Dynamic::UNIT, |item| list.element(&item))
    });
    pure("clear").set_into_module(module, |list: &mut List| -> Answer<()> {
        list.array.replace(Vec::new()).map_err(misplaced)
    });
}

/// Registers what searches, compares, combines or copies lists.
fn register_sums(module: &mut Module) {
    pure("contains").set_into_module(
        module,
        |context: NativeCallContext<'_>, list: &mut List, value: Dynamic| -> Answer<bool> {
            let value = json_of(&value)?;
            let items = list.array.items();
            let is_there = items.contains(&value);
            if !is_there {
                report_item(&items, &value, "contains", context.call_position())?;
            }
            Ok(is_there)
        },
    );

    pure("==").set_into_module(module, |a: &mut List, b: List| Json::from(a.array.clone()) == b.array.into());
    pure("!=").set_into_module(module, |a: &mut List, b: List| Json::from(a.array.clone()) != b.array.into());
    pure("==").set_into_module(module, |a: &mut List, b: rhai::Array| equals(a, b));
    pure("!=").set_into_module(module, |a: &mut List, b: rhai::Array| !equals(a, b));
    pure("==").set_into_module(module, |a: rhai::Array, b: List| equals(&b, a));
    pure("!=").set_into_module(module, |a: rhai::Array, b: List| !equals(&b, a));

    pure("+").set_into_module(module, |a: &mut List, b: List| -> Answer<List> {
        reserve_items(a.array.len() + b.array.len())?;
        Ok(List::new(a.shape, [a.array.items(), b.array.items()].concat()))
    });
    pure("+").set_into_module(module, |a: &mut List, b: rhai::Array| -> Answer<List> {
        Ok(List::new(a.shape, [a.array.items(), json_items(b)?].concat()))
    });
    pure("+").set_into_module(module, |a: rhai::Array, b: List| -> Answer<List> {
        Ok(List::new(b.shape, [json_items(a)?, b.array.items()].concat()))
    });

    method("copy", COPY, COPIES).set_into_module(module, |list: &mut List| {
        copied(&list.array.clone().into()).map(|copy| live(&copy, list.shape))
    });
    method("at", AT, FINDS).set_into_module(module, |list: &mut List, path: &str| {
        live(&Json::from(list.array.clone()).at_path(path), Shape::Plain)
    });
}

/// Checks that a call may hold this number of additional elements while they are copied twice.
fn reserve_items(count: usize) -> Answer<()> {
    budget::reserve(count * 2 * size_of::<Json>()).map_err(budget::ended)
}

/// Converts the elements of a native array together: they share one limit.
fn json_items(array: rhai::Array) -> Answer<Vec<Json>> {
    Ok(json_of(&array.into())?.items())
}

fn extend(list: &mut List, other: rhai::Array) -> Answer<()> {
    json_items(other)?.into_iter().try_for_each(|item| list.array.push(item)).map_err(misplaced)
}

fn equals(list: &List, other: rhai::Array) -> bool {
    json_items(other).is_ok_and(|items| items == list.array.items())
}
