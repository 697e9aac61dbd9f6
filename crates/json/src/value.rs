//! The JSON value and its containers.

use crate::entries::Entries;
use crate::entries::Unread;
use crate::number::Number;
use crate::text::Text;
use compact_str::CompactString;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The maximum nesting depth of containers, both when parsing and when setting values.
pub const MAX_DEPTH: usize = 128;

/// A JSON value. A clone of a container shares it.
#[derive(Clone, Default)]
pub enum Json {
    /// The value `null`, also returned for missing keys.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, with its spelling if it would otherwise be lost.
    Number(Number),
    /// A string, with its spelling if it is long.
    Text(Text),
    /// A shared list.
    Array(Array),
    /// A shared map in order of insertion.
    Object(Object),
}

/// A shared list.
#[derive(Clone, Default)]
pub struct Array(pub(super) Arc<Mutex<Slots<Vec<Json>>>>);

/// A shared map that preserves the order in which keys were inserted.
#[derive(Clone, Default)]
pub struct Object(pub(super) Arc<Mutex<Slots<Fields>>>);

/// The contents of a container.
#[derive(Default)]
pub(super) struct Slots<T: Children> {
    pub(super) items: T,
    pub(super) state: State,
}

#[derive(Default, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// The items are as they were parsed.
    #[default]
    Read,
    Changed,
    /// The container is read-only.
    ReadOnly,
}

/// The values that can be moved out of a container when its last handle is dropped.
pub(super) trait Children: Default {
    fn has_containers(&self) -> bool;
    fn take_containers(&mut self, into: &mut Vec<Json>);
}

/// The entries of an object.
pub(super) enum Fields {
    Read(Entries<Json>),
    /// The entries before their first access.
    Unread(Unread),
}

/// The reason why a value cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MisplacedValue {
    /// The container would contain itself.
    Cycle,
    /// The value would be nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// The index is out of range.
    Range {
        /// The requested index.
        index: i64,
        /// The length of the array.
        len: usize,
    },
    /// The container is read-only.
    ReadOnly,
    /// A string, number, boolean or null has no keys.
    NoContainer,
    /// A value that is not an array has no elements.
    NoList,
}

impl fmt::Display for MisplacedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle => f.write_str("a value cannot be put inside itself; put in a copy: `value.copy()`"),
            Self::TooDeep => write!(f, "the value exceeded its limit of {MAX_DEPTH} nested levels"),
            Self::Range { index, len } => {
                write!(f, "index {index} is out of range: the array has {len} elements")
            }
            Self::ReadOnly => f.write_str("this value can only be read; work on a copy: `value.copy()`"),
            Self::NoContainer => f.write_str("only objects have keys"),
            Self::NoList => f.write_str("only arrays have elements"),
        }
    }
}

impl std::error::Error for MisplacedValue {}

impl Json {
    /// Creates an empty object.
    pub fn object() -> Self {
        Self::Object(Object::default())
    }

    /// Creates an empty array.
    pub fn array() -> Self {
        Self::Array(Array::default())
    }

    /// Creates an object of these fields, in this order.
    pub fn from_fields<K: Into<CompactString>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        fields.into_iter().map(|(key, value)| (key.into(), value)).collect::<Object>().into()
    }

    /// Returns the value of a key; `None` if the key is missing or this is not an object.
    pub fn get(&self, key: &str) -> Option<Self> {
        match self {
            Self::Object(object) => object.get(key),
            _ => None,
        }
    }

    /// Returns the value of a key; null if the key is missing or this is not an object.
    pub fn field(&self, key: &str) -> Self {
        self.get(key).unwrap_or(Self::Null)
    }

    /// Returns the elements of the array at a key; an empty list for any other value.
    pub fn list(&self, key: &str) -> Vec<Self> {
        match self {
            Self::Object(object) => object.with(key, |value| value.map_or_else(Vec::new, Self::items)),
            _ => Vec::new(),
        }
    }

    /// Returns the value of a key unless it is missing or null.
    pub fn given(&self, key: &str) -> Option<Self> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// Returns the element at an index, negative from the end; `None` if it is out of range or this is not an
    /// array.
    pub fn at(&self, index: i64) -> Option<Self> {
        match self {
            Self::Array(array) => array.get(array.position(index)?),
            _ => None,
        }
    }

    /// Sets a key of an object.
    ///
    /// # Errors
    /// Returns an error if this is not an object or is read-only, or if the value would contain itself or nest
    /// too deep.
    pub fn set(&self, key: &str, value: impl Into<Self>) -> Result<(), MisplacedValue> {
        match self {
            Self::Object(object) => object.set(key, value.into()),
            _ => Err(MisplacedValue::NoContainer),
        }
    }

    /// Sets a key of an object that the caller created and that has no other handles. It accepts any value that
    /// does not contain the object.
    ///
    /// # Panics
    /// Panics in debug builds if the value cannot be set. In release builds, the object is unchanged.
    pub fn put(&self, key: &str, value: impl Into<Self>) {
        let put = self.set(key, value);
        debug_assert!(put.is_ok(), "cannot put {key:?} into {}: {put:?}", self.kind());
    }

    /// Sets a key of a value that other code may have changed or replaced. A value that is not an object, is
    /// read-only or would contain itself is unchanged.
    pub fn edit(&self, key: &str, value: impl Into<Self>) {
        if let Self::Object(object) = self {
            object.edit(key, value.into());
        }
    }

    /// Appends an element to an array.
    ///
    /// # Errors
    /// Returns an error if this is not an array or is read-only, or if the value would contain itself or nest too
    /// deep.
    pub fn push(&self, value: impl Into<Self>) -> Result<(), MisplacedValue> {
        match self {
            Self::Array(array) => array.push(value.into()),
            _ => Err(MisplacedValue::NoList),
        }
    }

    /// Inserts an element into an array at a position from 0, at the end if it is larger than the length.
    ///
    /// # Errors
    /// Returns the errors of [`Json::push`].
    pub fn insert(&self, position: usize, value: impl Into<Self>) -> Result<(), MisplacedValue> {
        match self {
            Self::Array(array) => array.insert(position.min(array.len()), value.into()),
            _ => Err(MisplacedValue::NoList),
        }
    }

    /// Removes a key of an object and returns its value.
    pub fn remove(&self, key: &str) -> Option<Self> {
        match self {
            Self::Object(object) => object.remove(key),
            _ => None,
        }
    }

    /// Returns the string; `None` for any other value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the string; "" for any other value.
    pub fn str_or_empty(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the string at a key; `None` for any other value.
    pub fn text(&self, key: &str) -> Option<CompactString> {
        match self {
            Self::Object(object) => object.with(key, |value| match value {
                Some(Self::Text(text)) => Some(text.as_str().into()),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Returns the string at a key; "" for any other value.
    pub fn text_or_empty(&self, key: &str) -> CompactString {
        self.text(key).unwrap_or(CompactString::const_new(""))
    }

    /// Returns the string at a key as a `String`; an empty one for any other value.
    pub fn string(&self, key: &str) -> String {
        self.text_or_empty(key).into()
    }

    /// Returns `true` if the value of a key is this string.
    pub fn is_text(&self, key: &str, text: &str) -> bool {
        match self {
            Self::Object(object) => {
                object.with(key, |value| matches!(value, Some(Self::Text(own)) if own.as_str() == text))
            }
            _ => false,
        }
    }

    /// Returns the integer at a key; `None` for any other value or one out of range.
    pub fn integer(&self, key: &str) -> Option<i64> {
        match self {
            Self::Object(object) => object.with(key, |value| value.and_then(Self::as_i64)),
            _ => None,
        }
    }

    /// Returns `true` if the value of a key is `true`.
    pub fn is_true(&self, key: &str) -> bool {
        match self {
            Self::Object(object) => object.with(key, |value| matches!(value, Some(Self::Bool(true)))),
            _ => false,
        }
    }

    /// Returns the boolean; `None` for any other value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the integer; `None` for any other value or one out of range.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// Returns the non-negative integer at a key; 0 for any other value.
    pub fn count(&self, key: &str) -> u64 {
        let number = |value: &Self| value.as_i64().and_then(|number| u64::try_from(number).ok());
        match self {
            Self::Object(object) => object.with(key, |value| value.and_then(number).unwrap_or(0)),
            _ => 0,
        }
    }

    /// Returns the number; `None` for any other value.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// Returns the integer, if it is not negative; `None` for any other value.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(Number::Unsigned(value)) => Some(*value),
            Self::Number(number) => u64::try_from(number.as_i64()?).ok(),
            _ => None,
        }
    }

    /// Returns the array; `None` for any other value.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the object; `None` for any other value.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the elements of an array; an empty list for any other value.
    pub fn items(&self) -> Vec<Self> {
        match self {
            Self::Array(array) => array.items(),
            _ => Vec::new(),
        }
    }

    /// Iterates over the elements of an array as they are now; over nothing for any other value.
    pub fn iter(&self) -> std::vec::IntoIter<Self> {
        self.items().into_iter()
    }

    /// Returns the keys and values of an object, in order; an empty list for any other value.
    pub fn entries(&self) -> Vec<(CompactString, Self)> {
        match self {
            Self::Object(object) => object.entries(),
            _ => Vec::new(),
        }
    }

    /// Returns the keys of an object, in order; an empty list for any other value.
    pub fn keys(&self) -> Vec<CompactString> {
        match self {
            Self::Object(object) => object.keys(),
            _ => Vec::new(),
        }
    }

    /// Returns `true` if this is an object with the key.
    pub fn contains_key(&self, key: &str) -> bool {
        matches!(self, Self::Object(object) if object.contains(key))
    }

    /// Returns `true` if this is an array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns `true` if this is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns `true` if this is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Returns `true` if this is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns `true` if this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns `true` if this is null, "", [], {}, false or 0.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Number(number) => number.as_f64() == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Array(array) => array.is_empty(),
            Self::Object(object) => object.is_empty(),
        }
    }

    /// Returns the number of elements of an array or of keys of an object; 0 for any other value.
    pub fn len(&self) -> usize {
        match self {
            Self::Array(array) => array.len(),
            Self::Object(object) => object.len(),
            _ => 0,
        }
    }

    /// Returns `true` if both are handles of the same container.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.ptr_eq(b),
            (Self::Object(a), Self::Object(b)) => a.ptr_eq(b),
            _ => false,
        }
    }

    /// Returns the JSON type of the value, such as `object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}
impl From<&String> for Json {
    fn from(text: &String) -> Self {
        Self::Text(text.as_str().into())
    }
}
impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}
impl From<CompactString> for Json {
    fn from(text: CompactString) -> Self {
        Self::Text(text.into())
    }
}
impl From<Text> for Json {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}
impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<u8> for Json {
    fn from(value: u8) -> Self {
        Self::from(i64::from(value))
    }
}
impl From<u16> for Json {
    fn from(value: u16) -> Self {
        Self::from(i64::from(value))
    }
}
impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Self::from(i64::from(value))
    }
}
impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::from(i64::from(value))
    }
}
impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }
}
impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(Number::from_u64(value))
    }
}
impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}
impl From<f32> for Json {
    /// Converts a float; infinities and NaN become null.
    fn from(value: f32) -> Self {
        Self::from(f64::from(value))
    }
}
impl From<f64> for Json {
    /// Converts a float; infinities and NaN become null.
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Number(Number::Float(value)) } else { Self::Null }
    }
}
impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}
impl<T: Into<Json>> FromIterator<T> for Json {
    /// Creates an array.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(Array::new(items.into_iter().map(Into::into).collect()))
    }
}
impl IntoIterator for &Json {
    type Item = Json;
    type IntoIter = std::vec::IntoIter<Json>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
impl From<Array> for Json {
    fn from(array: Array) -> Self {
        Self::Array(array)
    }
}
impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}
impl<const N: usize> From<[(&str, Json); N]> for Json {
    /// Creates an object of these entries.
    fn from(entries: [(&str, Json); N]) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}
impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
