//! The part of an entry's value that is not written yet.

use super::error::KvError;
use super::window::{self, Slot};
use crate::record::{KvChange, KvRow};
use valvehouse_json::{Json, Number};

/// A change that is not written yet.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// The value takes the place of whatever is stored.
    Replace,
    /// The number is added to the one that is stored.
    Add(Json),
    /// The hits are added to the window that is stored, whose length in milliseconds this is.
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

    /// Returns what becomes of a stored value with this change; `None` where this is all that counts.
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

    /// Returns the change that was taken and could not be written.
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
