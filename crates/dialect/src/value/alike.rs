//! Values of different types that read the same: `5` and `"5"`, `true` and `"true"`, `1` and `true`.
//!
//! Rhai holds them for unequal without a word. A script that expects the one and receives the other would take the
//! wrong branch, and a guard would let a request pass.

use super::{Map, dynamic_of, json_of};
use crate::answer::ThrownError;
use crate::call::{self, log};
use rhai::{Dynamic, EvalAltResult, Position};
use valvehouse_json::Json;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The status of a request that a guard cannot judge.
pub const UNJUDGED: u16 = 422;
/// A longer text is not read as a number, in bytes.
const MAX_NUMBER: usize = 32;
/// The maximum number of values in two lists or maps that are compared.
const MAX_COMPARED: usize = 10_000;

/// A value that may read the same as one of another type.
enum Reading {
    Number(f64),
    Boolean(bool),
    /// A text, as the number or the boolean that it spells.
    Text(Option<f64>, Option<bool>),
}

impl Reading {
    /// Reads a value; `None` if no value of another type reads the same.
    fn of(value: &Dynamic) -> Option<Self> {
        if let Ok(number) = value.as_int() {
            return Some(Self::Number(number as f64));
        }
        if let Ok(number) = value.as_float() {
            return Some(Self::Number(number));
        }
        if let Ok(boolean) = value.as_bool() {
            return Some(Self::Boolean(boolean));
        }
        match value.as_char() {
            Ok(character) => Self::of_text(character.encode_utf8(&mut [0; 4])),
            Err(_) => value.as_immutable_string_ref().ok().and_then(|text| Self::of_text(&text)),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_NUMBER {
            return None;
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        let boolean = [true, false].into_iter().find(|word| text.eq_ignore_ascii_case(&word.to_string()));
        (number.is_some() || boolean.is_some()).then_some(Self::Text(number, boolean))
    }

    /// Returns `true` if the other value has another type and reads the same.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(number), Self::Text(text, _)) | (Self::Text(text, _), Self::Number(number)) => {
                *text == Some(*number)
            }
            (Self::Boolean(boolean), Self::Text(_, text)) | (Self::Text(_, text), Self::Boolean(boolean)) => {
                *text == Some(*boolean)
            }
            (Self::Number(number), Self::Boolean(boolean))
            | (Self::Boolean(boolean), Self::Number(number)) => *number == f64::from(u8::from(*boolean)),
            _ => false,
        }
    }
}

/// Returns `true` if a value of another type may read the same as this text.
pub(crate) fn may_read_like(text: &str) -> bool {
    Reading::of_text(text).is_some()
}

/// Returns `true` if two values have different types and read the same.
pub(crate) fn reads_alike(first: &Dynamic, second: &Dynamic) -> bool {
    matches!((Reading::of(first), Reading::of(second)), (Some(first), Some(second)) if first.is_like(&second))
}

/// Reports two values of different types that read the same and were found unequal.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_pair(first: &Dynamic, second: &Dynamic, operator: &str, at: Position) -> Answer<()> {
    let (Some(first), Some(second)) = (Reading::of(first), Reading::of(second)) else { return Ok(()) };
    match first.is_like(&second) {
        true => report([&first, &second], operator, at),
        false => Ok(()),
    }
}

/// Returns `true` for a value that may read the same as one of another type.
pub(crate) fn may_read_like_others(value: &Dynamic) -> bool {
    Reading::of(value).is_some()
}

/// Returns the values of other types that read the same as this one, in their usual spellings.
fn other_spellings(value: &Dynamic) -> Vec<Dynamic> {
    let of_number = |number: f64| {
        let whole = (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
        whole.map(Dynamic::from).into_iter().chain([Dynamic::from(number)])
    };
    match Reading::of(value) {
        None => Vec::new(),
        Some(Reading::Number(number)) => {
            let texts = of_number(number).map(|number| number.to_string().into());
            let boolean = [(0.0, false), (1.0, true)].into_iter().find(|(known, _)| *known == number);
            texts.chain(boolean.map(|(_, boolean)| boolean.into())).collect()
        }
        Some(Reading::Boolean(boolean)) => {
            let lower = boolean.to_string();
            let title = if boolean { "True" } else { "False" };
            let texts = [title.to_owned(), lower.to_uppercase(), lower].map(Dynamic::from);
            texts.into_iter().chain(of_number(f64::from(u8::from(boolean)))).collect()
        }
        Some(Reading::Text(number, boolean)) => {
            number.into_iter().flat_map(of_number).chain(boolean.map(Dynamic::from)).collect()
        }
    }
}

/// Reports a subject of a `switch` that is none of its cases, but reads the same as one of another type.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_subject(
    subject: &Dynamic,
    is_case: impl Fn(&Dynamic) -> bool,
    at: Position,
) -> Answer<()> {
    if is_case(subject) {
        return Ok(());
    }
    match other_spellings(subject).iter().find(|other| is_case(other)) {
        Some(case) => report_pair(subject, case, "switch", at),
        None => Ok(()),
    }
}

/// Reports two lists or maps that differ only in values that read the same: `[5]` and `["5"]`.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_containers(
    first: &Dynamic,
    second: &Dynamic,
    operator: &str,
    at: Position,
) -> Answer<()> {
    // A value that is not JSON, or too large, is not compared.
    let (Ok(first), Ok(second)) = (json_of(first), json_of(second)) else { return Ok(()) };
    report_container_element([second], &first, operator, at)
}

/// Reports a list or map among elements that differs from another one only in values that read the same. The elements
/// were found not to contain it.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_container_element(
    elements: impl IntoIterator<Item = Json>,
    value: &Json,
    function: &str,
    at: Position,
) -> Answer<()> {
    let mut left = MAX_COMPARED;
    for element in elements {
        let mut differences = Differences { alike: None, left };
        if differences.are_alike_only(&element, value)
            && let Some([first, second]) = &differences.alike
        {
            return report([first, second], function, at);
        }
        left = differences.left;
    }
    Ok(())
}

/// The differences between two values.
struct Differences {
    /// The first two values that differ only in their type.
    alike: Option<[Reading; 2]>,
    /// The number of values that may still be compared.
    left: usize,
}

impl Differences {
    /// Returns `true` if two values are equal except for values that read the same.
    fn are_alike_only(&mut self, first: &Json, second: &Json) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        match (first, second) {
            (Json::Array(first), Json::Array(second)) => {
                let (first, second) = (first.items(), second.items());
                first.len() == second.len()
                    && first.iter().zip(&second).all(|(first, second)| self.are_alike_only(first, second))
            }
            (Json::Object(first), Json::Object(second)) => {
                first.len() == second.len()
                    && first.entries().iter().all(|(key, value)| {
                        second.get(key).is_some_and(|other| self.are_alike_only(value, &other))
                    })
            }
            (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => false,
            (first, second) if first == second => true,
            (first, second) => match (Reading::of(&dynamic_of(first)), Reading::of(&dynamic_of(second))) {
                (Some(first), Some(second)) if first.is_like(&second) => {
                    self.alike.get_or_insert([first, second]);
                    true
                }
                _ => false,
            },
        }
    }
}

/// Reports an element that reads the same as a value of another type that the list was found not to contain.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_element<'a>(
    elements: impl IntoIterator<Item = &'a Dynamic> + Clone,
    value: &Dynamic,
    function: &str,
    at: Position,
) -> Answer<()> {
    let is_single =
        value.is_int() || value.is_float() || value.is_bool() || value.is_string() || value.is_char();
    if is_single
        && elements.clone().into_iter().next().is_some()
        && elements.clone().into_iter().all(is_filled_map)
    {
        return report_unlike(function, at);
    }
    let Some(value) = Reading::of(value) else { return Ok(()) };
    let element = elements.into_iter().filter_map(Reading::of).find(|element| element.is_like(&value));
    element.map_or(Ok(()), |element| report([&element, &value], function, at))
}

/// Reports an element of a live list as [`report_element`] does.
///
/// # Errors
///
/// Returns an error in a guard.
pub(crate) fn report_item(items: &[Json], value: &Json, function: &str, at: Position) -> Answer<()> {
    let is_single = |value: &Json| value.as_array().is_none() && value.as_object().is_none();
    if !is_single(value) {
        let containers = items.iter().filter(|item| !is_single(item)).cloned();
        return report_container_element(containers, value, function, at);
    }
    if !value.is_null() && !items.is_empty() && items.iter().all(|item| item.is_object() && !item.is_empty())
    {
        return report_unlike(function, at);
    }
    if Reading::of(&dynamic_of(value)).is_none() {
        return Ok(());
    }
    let items: Vec<Dynamic> = items.iter().filter(|item| is_single(item)).map(dynamic_of).collect();
    report_element(&items, &dynamic_of(value), function, at)
}

fn is_filled_map(value: &Dynamic) -> bool {
    value.read_lock::<rhai::Map>().is_some_and(|map| !map.is_empty())
        || value.read_lock::<Map>().is_some_and(|map| !map.object.is_empty())
}

/// Reports a search for a single value in a list that only has maps, such as the parts of a message's content.
///
/// # Errors
///
/// Returns an error in a guard.
fn report_unlike(function: &str, at: Position) -> Answer<()> {
    let message = format!("`{function}` searches for a single value in a list of maps, which never has it");
    let help = "search a field of each element; the content of a message may be a list of parts, and `.text` is \
                its text";
    report_message(message, help, at)
}

fn report([first, second]: [&Reading; 2], operator: &str, at: Position) -> Answer<()> {
    let name = |value: &Reading| match value {
        Reading::Number(_) => "a number",
        Reading::Boolean(_) => "a boolean",
        Reading::Text(..) => "a string",
    };
    let message = format!(
        "`{operator}` compares {} with {} that reads the same, but the two are never equal",
        name(first),
        name(second)
    );
    let help = "convert one of them first, with `parse_int(text)` or `value.to_string()`";
    let help = match call::is_of_guard() {
        true => format!("{help}, or compare with both types"),
        false => help.to_owned(),
    };
    report_message(message, &help, at)
}

fn report_message(message: String, help: &str, at: Position) -> Answer<()> {
    if call::is_of_guard() {
        let message = format!("{message}; {help}");
        // The value is the client's or the model's, so the guard keeps working for others.
        return Err(ThrownError::unanswered(message, UNJUDGED).into_error(at));
    }
    log::warn_at(at, &format!("{message}; {help}"));
    Ok(())
}
