//! The difference of two values as a JSON Patch (RFC 6902) whose operations include the previous values.
//!
//! Applied in order, the operations turn the first value into the second. Lists are aligned: a message inserted
//! before all others is one `add`, regardless of the messages after it.
//!
//! ```
//! use valvehouse_json::{Json, diff::diff};
//! let before = Json::parse(br#"{"messages":["hi"],"model":"a"}"#).unwrap();
//! let after = Json::parse(br#"{"messages":["be kind","hi"],"model":"b"}"#).unwrap();
//! let operations = diff(&before, &after);
//! let operations: Vec<String> = operations.iter().map(|it| format!("{} {}", it.op.as_str(), it.path)).collect();
//! assert_eq!(operations, ["add /messages/0", "replace /model"]);
//! ```

use crate::value::{Json, MAX_DEPTH};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// The maximum number of compared pairs of values. Beyond it, entire values are replaced, because one container
/// may occur in very many places.
const MAX_PAIRS: usize = 20_000;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A value is added, in a list before the element at the path.
    Add,
    /// A value is removed.
    Remove,
    /// A value is replaced.
    Replace,
}

impl Op {
    /// Returns the name of the operation in RFC 6902.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
        }
    }
}

/// An operation of a difference.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOperation {
    /// The operation.
    pub op: Op,
    /// The path, a JSON Pointer (RFC 6901), valid once the earlier operations are applied.
    pub path: String,
    /// The value before; null if there was none.
    pub before: Json,
    /// The value after; null if there is none.
    pub after: Json,
}

impl DiffOperation {
    /// Converts the operation to `{op, path, before, after}`, without values that do not exist.
    pub fn to_json(&self) -> Json {
        let sides = [("before", &self.before, Op::Add), ("after", &self.after, Op::Remove)];
        let sides = sides.into_iter().filter(|(_, _, without)| self.op != *without);
        let fields = [("op", self.op.as_str().into()), ("path", self.path.as_str().into())];
        let sides = sides.map(|(name, value, _)| (name, value.clone()));
        Json::Object(fields.into_iter().chain(sides).map(|(name, value)| (name.into(), value)).collect())
    }
}

/// Returns the operations that turn the first value into the second. The order of keys is ignored.
pub fn diff(before: &Json, after: &Json) -> Vec<DiffOperation> {
    let mut differ = Differ { changes: Vec::new(), path: Vec::new(), pairs: 0 };
    differ.values(before, after);
    differ.changes
}

struct Differ {
    changes: Vec<DiffOperation>,
    path: Vec<String>,
    pairs: usize,
}

impl Differ {
    fn values(&mut self, before: &Json, after: &Json) {
        self.pairs += 1;
        if before == after {
            return;
        }
        let is_bounded = self.pairs < MAX_PAIRS && self.path.len() < MAX_DEPTH;
        match (before, after) {
            (Json::Object(_), Json::Object(_)) if is_bounded => self.objects(before, after),
            (Json::Array(_), Json::Array(_)) if is_bounded => self.lists(&before.items(), &after.items()),
            _ => self.change(Op::Replace, before, after),
        }
    }

    fn objects(&mut self, before: &Json, after: &Json) {
        let entries = |value: &Json| value.entries();
        for (key, old) in entries(before) {
            match after.get(&key) {
                Some(new) => self.within(&key, |it| it.values(&old, &new)),
                None => self.within(&key, |it| it.change(Op::Remove, &old, &Json::Null)),
            }
        }
        for (key, new) in entries(after).into_iter().filter(|(key, _)| before.get(key).is_none()) {
            self.within(&key, |it| it.change(Op::Add, &Json::Null, &new));
        }
    }

    /// Compares lists. Equal elements are matched; between them, elements of the same kind count as changed.
    fn lists(&mut self, before: &[Json], after: &[Json]) {
        let mut known = Numbers::default();
        let (old, new) = (known.all(before), known.all(after));
        for (is_equal, from, to) in steps(&old, &new) {
            if !is_equal {
                self.stretch(before, from, after, to);
            }
        }
    }

    /// Compares a range of a list with the range that replaces it.
    fn stretch(&mut self, before: &[Json], old: Range<usize>, after: &[Json], new: Range<usize>) {
        let kinds = |list: &[Json], range: &Range<usize>| -> Vec<String> {
            list[range.clone()].iter().map(kind).collect()
        };
        let (mut here, old_kinds, new_kinds) = (new.start, kinds(before, &old), kinds(after, &new));
        for (_, from, to) in steps(&old_kinds, &new_kinds) {
            let pairs = from.len().min(to.len());
            let from = old.start + from.start..old.start + from.end;
            let to = new.start + to.start..new.start + to.end;
            for (one, other) in from.clone().zip(to.clone()) {
                self.within(&here.to_string(), |it| it.values(&before[one], &after[other]));
                here += 1;
            }
            for gone in from.skip(pairs) {
                self.within(&here.to_string(), |it| it.change(Op::Remove, &before[gone], &Json::Null));
            }
            for come in to.skip(pairs) {
                self.within(&here.to_string(), |it| it.change(Op::Add, &Json::Null, &after[come]));
                here += 1;
            }
        }
    }

    fn within(&mut self, step: &str, look: impl FnOnce(&mut Self)) {
        self.path.push(step.replace('~', "~0").replace('/', "~1"));
        look(self);
        self.path.pop();
    }

    fn change(&mut self, op: Op, before: &Json, after: &Json) {
        let path = self.path.iter().flat_map(|step| ["/", step]).collect();
        self.changes.push(DiffOperation { op, path, before: before.clone(), after: after.clone() });
    }
}

/// Returns the steps from one list to another: `true` for equal ranges, and the range in each list.
fn steps<T: Hash + Ord>(old: &[T], new: &[T]) -> impl Iterator<Item = (bool, Range<usize>, Range<usize>)> {
    // Only the lengths of the ranges are used, because the positions are unreliable where nothing is removed or
    // added.
    capture_diff_slices(Algorithm::Myers, old, new).into_iter().scan((0, 0), |(from, to), op| {
        let (start, begin) = (*from, *to);
        (*from, *to) = (start + op.old_range().len(), begin + op.new_range().len());
        Some((matches!(op, DiffOp::Equal { .. }), start..*from, begin..*to))
    })
}

/// Returns the kind of an element: the role of a message, the type of a part or the name of a tool.
fn kind(value: &Json) -> String {
    let words = ["role", "type", "name", "id"].map(|key| value.text_or_empty(key));
    format!("{} {}", value.kind(), words.join(" "))
}

/// Numbers for values; equal values have the same number.
#[derive(Default)]
struct Numbers(HashMap<usize, Vec<(usize, Json)>>, usize);

impl Numbers {
    fn all(&mut self, values: &[Json]) -> Vec<usize> {
        values.iter().map(|value| self.number(value)).collect()
    }

    fn number(&mut self, value: &Json) -> usize {
        // Equal values have the same weight unless parts are shared; those are detected one level deeper.
        let alike = self.0.entry(value.size_estimate()).or_default();
        if let Some((number, _)) = alike.iter().find(|(_, known)| known == value) {
            return *number;
        }
        alike.push((self.1, value.clone()));
        self.1 += 1;
        self.1 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn operations(before: &str, after: &str) -> Vec<String> {
        let changes = diff(&json(before), &json(after));
        changes
            .iter()
            .map(|it| format!("{} {} {}>{}", it.op.as_str(), it.path, it.before, it.after))
            .collect()
    }

    /// Applies operations.
    fn applied(changes: &[DiffOperation], value: &Json) -> Json {
        let mut root = value.deep_clone();
        for change in changes {
            let after = change.after.deep_clone();
            let Some((way, last)) = change.path.rsplit_once('/') else {
                root = after;
                continue;
            };
            let raw = |step: &str| step.replace("~1", "/").replace("~0", "~");
            let place = way.split('/').skip(1).fold(root.clone(), |here, step| match &here {
                Json::Array(_) => here.at(step.parse().unwrap()).unwrap(),
                _ => here.get(&raw(step)).unwrap(),
            });
            match (&place, change.op) {
                (Json::Array(list), Op::Add) => list.insert(last.parse().unwrap(), after).unwrap(),
                (Json::Array(list), Op::Replace) => list.set(last.parse().unwrap(), after).unwrap(),
                (Json::Array(list), Op::Remove) => assert!(list.remove(last.parse().unwrap()).is_some()),
                (_, Op::Remove) => assert!(place.remove(&raw(last)).is_some()),
                _ => place.set(&raw(last), after).unwrap(),
            }
        }
        root
    }

    #[test]
    fn an_inserted_first_message_is_one_addition() {
        let before = r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        let after = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        assert_eq!(operations(before, after), [r#"add /messages/0 null>{"role":"system","content":"s"}"#]);
    }

    #[test]
    fn a_changed_message_next_to_a_new_one_is_one_change() {
        let before = r#"[{"role":"user","content":"a"}]"#;
        let after = r#"[{"role":"system","content":"s"},{"role":"user","content":"A"}]"#;
        assert_eq!(
            operations(before, after),
            [r#"add /0 null>{"role":"system","content":"s"}"#, r#"replace /1/content "a">"A""#]
        );
    }

    #[test]
    fn added_and_removed_keys_have_json_pointer_paths() {
        let changes =
            operations(r#"{"a/b":1,"c~d":{"x":[]},"same":1.0}"#, r#"{"same":1.0,"c~d":{"x":[2]},"n":null}"#);
        assert_eq!(changes, ["remove /a~1b 1>null", "add /c~0d/x/0 null>2", "add /n null>null"]);
        assert_eq!(operations("[1]", "{}"), ["replace  [1]>{}"]);
        assert!(operations(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#).is_empty());
    }

    #[test]
    fn an_exponentially_shared_value_is_compared_in_bounded_time() {
        let laughs = |last: &str| {
            (0..100).fold(Json::from(vec![Json::from(last)]), |list, _| vec![list.clone(), list].into())
        };
        assert!(!diff(&laughs("ha"), &laughs("ho")).is_empty());
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            (0..3_i64).prop_map(Json::from),
            "[a-c/~]{0,3}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
                prop::collection::btree_map("[a-c/~0-1]{0,2}|role|type", inner, 0..5).prop_map(|entries| {
                    Json::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn applying_a_difference_gives_the_second_value(before in any_json(), after in any_json()) {
            let changes = diff(&before, &after);
            prop_assert_eq!(changes.is_empty(), before == after);
            prop_assert_eq!(applied(&changes, &before), after);
        }
    }
}
