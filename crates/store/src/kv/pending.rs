//! Unwritten changes of entries.

use super::error::KvError;
use super::window::{self, Slot};
use crate::record::{KvChange, KvRow};
use valvehouse_json::{Json, Number};

/// An unwritten change.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// The value replaces the stored one.
    Replace,
    /// The number is added to the stored one.
    Add(Json),
    /// The hits are added to the stored window; the second value is its length in milliseconds.
    Hits(Vec<Slot>, i64),
}

impl Pending {
    /// Adds a later change to this one.
    pub(super) fn join(&mut self, later: Self) {
        *self = match (std::mem::replace(self, Self::Replace), later) {
            (Self::Add(a), Self::Add(b)) => sum(&a, &b).map_or(Self::Replace, Self::Add),
            (Self::Hits(mut slots, length), Self::Hits(more, same)) if length == same => {
                more.into_iter().for_each(|slot| window::add(&mut slots, slot, length));
                Self::Hits(slots, length)
            }
            _ => Self::Replace,
        };
    }

    /// Returns the result of applying this change to a stored value; `None` if the change replaces it.
    pub(super) fn on(&self, stored: Option<&Json>, now: i64) -> Option<Json> {
        match self {
            Self::Replace => None,
            Self::Add(by) => stored.map_or_else(|| Some(by.clone()), |stored| sum(stored, by).ok()),
            Self::Hits(slots, length) => {
                let none = Json::Null;
                window::merge(stored.unwrap_or(&none), &window::written(slots), *length, now)
            }
        }
    }

    /// Returns the change of a row with this value.
    pub(super) fn change(self, row: KvRow) -> KvChange {
        match self {
            Self::Replace => KvChange::Set(row),
            Self::Add(by) => KvChange::Add(KvRow { value: by, ..row }),
            Self::Hits(slots, length) => {
                KvChange::Hits(KvRow { value: window::written(&slots), ..row }, length)
            }
        }
    }

    /// Returns the unwritten change for a change that could not be written.
    pub(super) fn of(change: &KvChange) -> Self {
        match change {
            KvChange::Set(_) | KvChange::Delete { .. } => Self::Replace,
            KvChange::Add(row) => Self::Add(row.value.clone()),
            KvChange::Hits(row, length) => {
                window::read(&row.value).map_or(Self::Replace, |slots| Self::Hits(slots, *length))
            }
        }
    }
}

/// Merges a change of an entry with an earlier unwritten one, if there is one.
pub(crate) fn joined(earlier: Option<&KvChange>, later: KvChange, now: i64) -> KvChange {
    let counted = match (&later, earlier) {
        (KvChange::Set(_) | KvChange::Delete { .. }, _) | (_, None) => return later,
        (KvChange::Add(row), Some(KvChange::Set(set))) if !has_ended(set, now) => {
            sum(&set.value, &row.value).ok().map(|value| KvChange::Set(KvRow { value, ..set.clone() }))
        }
        (KvChange::Add(row), Some(KvChange::Add(add))) if !has_ended(add, now) => {
            sum(&add.value, &row.value).ok().map(|value| KvChange::Add(KvRow { value, ..add.clone() }))
        }
        (KvChange::Hits(row, length), Some(KvChange::Set(set))) if !has_ended(set, now) => {
            window::merge(&set.value, &row.value, *length, now).map(|value| {
                KvChange::Set(KvRow { value, expires_at: set.expires_at.max(row.expires_at), ..set.clone() })
            })
        }
        (KvChange::Hits(row, length), Some(KvChange::Hits(hits, same))) if length == same => {
            window::merge(&hits.value, &row.value, *length, now).map(|value| {
                let expires_at = hits.expires_at.max(row.expires_at);
                KvChange::Hits(KvRow { value, expires_at, ..hits.clone() }, *length)
            })
        }
        // The earlier value has expired or is of another type.
        (KvChange::Add(row) | KvChange::Hits(row, _), Some(_)) => Some(KvChange::Set(row.clone())),
    };
    counted.unwrap_or(later)
}

fn has_ended(row: &KvRow, now: i64) -> bool {
    row.expires_at.is_some_and(|end| end <= now)
}

/// Adds two numbers.
pub(crate) fn sum(a: &Json, b: &Json) -> Result<Json, KvError> {
    let number = |value: &Json| match value {
        Json::Number(number) => Ok(number.clone()),
        other => Err(KvError::NoNumber(other.kind())),
    };
    match (number(a)?, number(b)?) {
        (Number::Int(a), Number::Int(b)) => a.checked_add(b).map(Json::from).ok_or(KvError::Overflow),
        (a, b) => match a.as_f64() + b.as_f64() {
            sum if sum.is_finite() => Ok(sum.into()),
            _ => Err(KvError::Overflow),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Json, expires_at: Option<i64>) -> KvRow {
        KvRow { plugin: "a".into(), scope: "s".into(), key: "k".into(), value, expires_at }
    }

    #[test]
    fn pending_changes_of_an_entry_are_merged() {
        use KvChange::{Add, Hits, Set};
        let gone = || KvChange::Delete { plugin: "a".into(), scope: "s".into(), key: "k".into() };
        let add = |by: i64| Add(row(by.into(), None));
        let set = |value: i64, end| Set(row(value.into(), end));
        let hits = |last: i64, hits: i64| {
            Hits(row([last, hits].map(Json::from).to_vec().into(), Some(last + 60_000)), 60_000)
        };
        let joined = |earlier: &KvChange, later| joined(Some(earlier), later, 1_000);
        assert_eq!(super::joined(None, add(2), 1_000), add(2));
        assert_eq!(joined(&add(2), add(3)), add(5));
        assert_eq!(joined(&set(2, Some(5_000)), add(3)), set(5, Some(5_000)));
        assert_eq!(joined(&set(2, Some(500)), add(3)), set(3, None), "the number of before has ended");
        assert_eq!(joined(&gone(), add(3)), set(3, None));
        assert_eq!(joined(&add(3), set(1, None)), set(1, None));
        assert_eq!(joined(&add(3), gone()), gone());
        let both = row([500_i64, 2, 900, 1].map(Json::from).to_vec().into(), Some(60_900));
        assert_eq!(joined(&hits(500, 2), hits(900, 1)), Hits(both.clone(), 60_000));
        let Hits(first, _) = hits(500, 2) else { unreachable!() };
        assert_eq!(joined(&Set(first), hits(900, 1)), Set(both));
    }
}
