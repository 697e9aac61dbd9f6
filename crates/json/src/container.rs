//! The shared containers. Each has its own lock, which is never held while other code is called, except for the
//! closures of `with` and `for_each`.

use crate::entries::Unread;
use crate::fields::UnreadTexts;
use crate::value::{Array, Children, Fields, Json, MisplacedValue, Object, Slots, State};
use crate::walk::{check_place, check_places};
use compact_str::CompactString;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;

impl<T: Children> Slots<T> {
    /// Returns the items for a change, and marks them as changed.
    fn change(&mut self) -> Result<&mut T, MisplacedValue> {
        if self.state == State::ReadOnly {
            return Err(MisplacedValue::ReadOnly);
        }
        self.state = State::Changed;
        Ok(&mut self.items)
    }
}

impl Array {
    /// Creates an array of these elements.
    pub fn new(items: Vec<Json>) -> Self {
        Self(Arc::new(Mutex::new(Slots { items, state: State::Read })))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Returns `true` if the array is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts an index, negative from the end, to a position; `None` if it is out of range.
    pub fn position(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let position = if index < 0 {
            len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
        } else {
            usize::try_from(index).ok()?
        };
        (position < len).then_some(position)
    }

    /// Returns the element at a position.
    pub fn get(&self, position: usize) -> Option<Json> {
        self.0.lock().items.get(position).cloned()
    }

    /// Returns the last element.
    pub fn last(&self) -> Option<Json> {
        self.0.lock().items.last().cloned()
    }

    /// Returns the elements; containers among them are shared.
    pub fn items(&self) -> Vec<Json> {
        self.0.lock().items.clone()
    }

    /// Calls a closure with the elements without copying them. The closure must not access this array.
    pub fn with<R>(&self, look: impl FnOnce(&[Json]) -> R) -> R {
        look(&self.0.lock().items)
    }

    /// Replaces an element. Replacing a container with itself changes nothing.
    ///
    /// # Errors
    /// Returns an error if the position is out of range, the array is read-only, or the value would contain
    /// itself or nest too deep.
    pub fn set(&self, position: usize, value: Json) -> Result<(), MisplacedValue> {
        if self.with(|items| items.get(position).is_some_and(|slot| slot.ptr_eq(&value))) {
            return Ok(());
        }
        check_place(&value, self.address())?;
        let mut slots = self.0.lock();
        let items = slots.change()?;
        let len = items.len();
        let Some(slot) = items.get_mut(position) else {
            return Err(MisplacedValue::Range { index: position as i64, len });
        };
        let old = std::mem::replace(slot, value);
        drop(slots);
        drop(old);
        Ok(())
    }

    /// Replaces an element of an array that the caller created and that has no other handles.
    ///
    /// # Panics
    /// Panics in debug builds if the value cannot be set. In release builds, the array is unchanged.
    pub fn put(&self, position: usize, value: Json) {
        let put = self.set(position, value);
        debug_assert!(put.is_ok(), "cannot put an element into an array: {put:?}");
    }

    /// Appends an element.
    ///
    /// # Errors
    /// Returns an error if the array is read-only, or the value would contain itself or nest too deep.
    pub fn push(&self, value: Json) -> Result<(), MisplacedValue> {
        check_place(&value, self.address())?;
        self.0.lock().change()?.push(value);
        Ok(())
    }

    /// Inserts an element before a position; a position beyond the end appends it.
    ///
    /// # Errors
    /// Returns an error if the array is read-only, or the value would contain itself or nest too deep.
    pub fn insert(&self, position: usize, value: Json) -> Result<(), MisplacedValue> {
        check_place(&value, self.address())?;
        let mut slots = self.0.lock();
        let items = slots.change()?;
        let position = position.min(items.len());
        items.insert(position, value);
        Ok(())
    }

    /// Removes an element and returns it; `None` if the position is out of range or the array is read-only.
    pub fn remove(&self, position: usize) -> Option<Json> {
        let mut slots = self.0.lock();
        if position >= slots.items.len() {
            return None;
        }
        Some(slots.change().ok()?.remove(position))
    }

    /// Replaces all elements.
    ///
    /// # Errors
    /// Returns an error if the array is read-only, or a value would contain itself or nest too deep.
    pub fn replace(&self, items: Vec<Json>) -> Result<(), MisplacedValue> {
        check_places(&items, self.address())?;
        let mut slots = self.0.lock();
        let old = std::mem::replace(slots.change()?, items);
        drop(slots);
        drop(old);
        Ok(())
    }

    /// Returns `true` if both are handles of the same container.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if elements were replaced, added or removed.
    pub(super) fn is_changed(&self) -> bool {
        self.0.lock().state == State::Changed
    }

    /// Returns `true` if the array is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.lock().state == State::ReadOnly
    }

    /// Makes the array read-only.
    pub(super) fn freeze(&self) {
        self.0.lock().state = State::ReadOnly;
    }

    /// Sets the elements of a new array.
    pub(super) fn fill(&self, items: Vec<Json>) {
        self.0.lock().items = items;
    }

    /// Returns `true` if there are other handles of the array.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl Object {
    /// Creates an object of these entries. For a repeated key, the last value counts, and the object is changed: it does
    /// not equal its document any more.
    pub fn new(entries: Vec<(CompactString, Json)>) -> Self {
        let count = entries.len();
        let mut items = Fields::of(entries);
        let state = if items.len() == count { State::Read } else { State::Changed };
        Self(Arc::new(Mutex::new(Slots { items, state })))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Returns `true` if the object is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates an object that stays in its document until it is read.
    pub(super) fn unread(unread: Unread) -> Self {
        Self(Arc::new(Mutex::new(Slots { items: Fields::Unread(unread), state: State::Read })))
    }

    /// Returns the text of the object in its document, if it was not read yet.
    pub(super) fn as_unread(&self) -> Option<Unread> {
        self.0.lock().items.as_unread().cloned()
    }

    /// Calls a closure with the text of the object in its document, if it was not read yet.
    pub(super) fn with_spelling<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.0.lock().items.as_unread().map(|unread| look(unread.spelling()))
    }

    /// Visits the values that were read; unread values contain no containers.
    pub(super) fn each_read(&self, look: impl FnMut(&Json)) {
        self.0.lock().items.values_read().for_each(look);
    }

    /// Returns `true` if any value is an array or object.
    pub fn has_containers(&self) -> bool {
        self.0.lock().items.has_containers()
    }

    /// Returns `true` if the object has a key.
    pub fn contains(&self, key: &str) -> bool {
        self.0.lock().items.contains(key)
    }

    /// Returns `true` if the object has `one` and lacks `other`.
    pub fn has_and_lacks(&self, one: &str, other: &str) -> bool {
        let mut slots = self.0.lock();
        slots.items.contains(one) && !slots.items.contains(other)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Json> {
        self.0.lock().items.get(key).cloned()
    }

    /// Returns the value of a key, null if the key is missing.
    pub fn field(&self, key: &str) -> Json {
        self.get(key).unwrap_or(Json::Null)
    }

    /// Returns `true` if the value of a key is a non-empty string.
    pub fn has_text(&self, key: &str) -> bool {
        self.0.lock().items.has_text(key)
    }

    /// Calls a closure with the bytes of a short string without copying it, `None` if the value is not a string. The
    /// closure must not access this object.
    pub fn with_word<R>(&self, key: &str, look: impl FnOnce(Option<&[u8]>) -> R) -> R {
        self.0.lock().items.with_word(key, look)
    }

    /// Calls a closure with an object of strings that are not empty, if it was not read yet. The closure must not access
    /// this object.
    pub fn with_unread_texts<R>(&self, look: impl FnOnce(UnreadTexts<'_>) -> R) -> Option<R> {
        let slots = self.0.lock();
        let unread = slots.items.as_unread().filter(|unread| unread.has_only_texts)?;
        Some(look(UnreadTexts(unread)))
    }

    /// Calls a closure with the value of a key without copying it. The closure must not access this object.
    pub fn with<R>(&self, key: &str, look: impl FnOnce(Option<&Json>) -> R) -> R {
        self.0.lock().items.with(key, look)
    }

    /// Sets a key. Setting a container to itself changes nothing.
    ///
    /// # Errors
    /// Returns an error if the object is read-only, or the value would contain itself or nest too deep.
    pub fn set(&self, key: &str, value: Json) -> Result<(), MisplacedValue> {
        if is_container(&value) {
            if self.with(key, |slot| slot.is_some_and(|slot| slot.ptr_eq(&value))) {
                return Ok(());
            }
            check_place(&value, self.address())?;
        }
        let mut slots = self.0.lock();
        let old = slots.change()?.insert(key, value);
        drop(slots);
        drop(old);
        Ok(())
    }

    /// Sets a key of an object that the caller created and that has no other handles.
    ///
    /// # Panics
    /// Panics in debug builds if the value cannot be set. In release builds, the object is unchanged.
    pub fn put(&self, key: &str, value: Json) {
        let put = self.set(key, value);
        debug_assert!(put.is_ok(), "cannot put {key:?} into an object: {put:?}");
    }

    /// Sets a key. An object that is read-only or would contain itself is unchanged.
    pub fn edit(&self, key: &str, value: Json) {
        if let Err(why) = self.set(key, value) {
            use MisplacedValue::{Cycle, ReadOnly, TooDeep};
            debug_assert!(matches!(why, Cycle | ReadOnly | TooDeep), "cannot edit {key:?}: {why}");
        }
    }

    /// Removes a key and returns its value; the order of the other keys is preserved.
    pub fn remove(&self, key: &str) -> Option<Json> {
        let mut slots = self.0.lock();
        if !slots.items.contains(key) {
            return None;
        }
        slots.change().ok()?.remove(key)
    }

    /// Removes all keys.
    pub fn clear(&self) {
        let old = self.0.lock().change().map(std::mem::take);
        drop(old);
    }

    /// Replaces all entries.
    ///
    /// # Errors
    /// Returns an error if the object is read-only, or a value would contain itself or nest too deep.
    pub fn replace(&self, entries: Vec<(CompactString, Json)>) -> Result<(), MisplacedValue> {
        check_places(entries.iter().map(|(_, value)| value), self.address())?;
        let mut slots = self.0.lock();
        let old = std::mem::replace(slots.change()?, Fields::of(entries));
        drop(slots);
        drop(old);
        Ok(())
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> Vec<CompactString> {
        self.0.lock().items.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the keys and values, in order; containers among them are shared.
    pub fn entries(&self) -> Vec<(CompactString, Json)> {
        self.0.lock().items.iter().cloned().collect()
    }

    /// Calls a closure with each key and value, in order, without copying them. The closure must not access
    /// this object.
    pub fn for_each(&self, mut look: impl FnMut(&str, &Json)) {
        for (key, value) in self.0.lock().items.iter() {
            look(key, value);
        }
    }

    /// Returns `true` if both are handles of the same container.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if keys were set or removed.
    pub(super) fn is_changed(&self) -> bool {
        self.0.lock().state == State::Changed
    }

    /// Returns `true` if the object is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.lock().state == State::ReadOnly
    }

    /// Makes the object read-only.
    pub(super) fn freeze(&self) {
        self.0.lock().state = State::ReadOnly;
    }

    /// Sets the entries of a new object.
    pub(super) fn fill(&self, entries: Vec<(CompactString, Json)>) {
        self.0.lock().items = Fields::of(entries);
    }

    /// Returns `true` if there are other handles of the object.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl FromIterator<(CompactString, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (CompactString, Json)>>(entries: I) -> Self {
        Self::new(entries.into_iter().collect())
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&Json::Array(self.clone()), f)
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&Json::Object(self.clone()), f)
    }
}

fn is_container(value: &Json) -> bool {
    matches!(value, Json::Array(_) | Json::Object(_))
}

impl Children for Vec<Json> {
    fn has_containers(&self) -> bool {
        self.iter().any(is_container)
    }

    fn take_containers(&mut self, into: &mut Vec<Json>) {
        into.extend(self.iter_mut().filter(|value| is_container(value)).map(std::mem::take));
    }
}

impl Children for Fields {
    fn has_containers(&self) -> bool {
        self.values_read().any(is_container)
    }

    fn take_containers(&mut self, into: &mut Vec<Json>) {
        into.extend(self.values_mut().filter(|value| is_container(value)).map(std::mem::take));
    }
}

thread_local! {
    /// The nesting depth of containers that are being freed on this thread.
    static FREEING: Cell<usize> = const { Cell::new(0) };
}

/// The nesting depth up to which containers are freed recursively.
const FREED_WITHIN: usize = 32;

/// Frees nested containers in a loop below a small depth, so that deep nesting by a script cannot overflow the
/// stack.
impl<T: Children> Drop for Slots<T> {
    fn drop(&mut self) {
        if !self.items.has_containers() {
            return;
        }
        let depth = FREEING.get();
        if depth < FREED_WITHIN {
            FREEING.set(depth + 1);
            drop(std::mem::take(&mut self.items));
            FREEING.set(depth);
            return;
        }
        let mut waiting = Vec::new();
        self.items.take_containers(&mut waiting);
        while let Some(value) = waiting.pop() {
            match value {
                Json::Array(Array(shared)) => {
                    if let Some(slots) = Arc::into_inner(shared) {
                        slots.into_inner().items.take_containers(&mut waiting);
                    }
                }
                Json::Object(Object(shared)) => {
                    if let Some(slots) = Arc::into_inner(shared) {
                        slots.into_inner().items.take_containers(&mut waiting);
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deeply_nested_value_is_dropped_without_overflow() {
        let root = Json::array();
        let mut deepest = root.clone();
        for level in 0..200_000 {
            let next = if level % 2 == 0 { Json::object() } else { Json::array() };
            let put = match &deepest {
                Json::Array(array) => array.push(next.clone()),
                other => other.set("x", next.clone()),
            };
            assert!(put.is_ok());
            deepest = next;
        }
        drop(deepest);
        std::thread::Builder::new().stack_size(128 * 1024).spawn(|| drop(root)).unwrap().join().unwrap();
    }
}
