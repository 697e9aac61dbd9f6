//! The shared containers. Each has its own lock, held for a moment and never across a call out.

use crate::entries::Unread;
use crate::value::{Array, Children, Fields, Json, MisplacedValue, Object, Slots, State};
use crate::walk::{check_place, check_places};
use compact_str::CompactString;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;

impl<T: Children> Slots<T> {
    /// The items, to be changed.
    fn change(&mut self) -> Result<&mut T, MisplacedValue> {
        if self.state == State::Frozen {
            return Err(MisplacedValue::Frozen);
        }
        self.state = State::Changed;
        Ok(&mut self.items)
    }
}

impl Array {
    /// A list of these elements.
    pub fn new(items: Vec<Json>) -> Self {
        Self(Arc::new(Mutex::new(Slots { items, state: State::Read })))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An index from either end as a position, when it is in range.
    pub fn position(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let position = if index < 0 {
            len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
        } else {
            usize::try_from(index).ok()?
        };
        (position < len).then_some(position)
    }

    /// The element at a position.
    pub fn get(&self, position: usize) -> Option<Json> {
        self.0.lock().items.get(position).cloned()
    }

    /// The last element.
    pub fn last(&self) -> Option<Json> {
        self.0.lock().items.last().cloned()
    }

    /// The elements; containers among them are shared.
    pub fn items(&self) -> Vec<Json> {
        self.0.lock().items.clone()
    }

    /// Looks at the elements in place. The look must not lead back to this array.
    pub fn with<R>(&self, look: impl FnOnce(&[Json]) -> R) -> R {
        look(&self.0.lock().items)
    }

    /// Replaces one element; putting back the same container changes nothing.
    pub fn set(&self, position: usize, value: Json) -> Result<(), MisplacedValue> {
        if self.with(|items| items.get(position).is_some_and(|slot| slot.is_same(&value))) {
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

    /// Replaces one element of an array that the caller made and nobody else has.
    ///
    /// # Panics
    /// Panics in debug builds if it does not take the value; in others it stays as it is.
    pub fn put(&self, position: usize, value: Json) {
        let put = self.set(position, value);
        debug_assert!(put.is_ok(), "cannot put an element into an array: {put:?}");
    }

    /// Adds an element at the end.
    pub fn push(&self, value: Json) -> Result<(), MisplacedValue> {
        check_place(&value, self.address())?;
        self.0.lock().change()?.push(value);
        Ok(())
    }

    /// Adds an element before a position; beyond the end it goes to the end.
    pub fn insert(&self, position: usize, value: Json) -> Result<(), MisplacedValue> {
        check_place(&value, self.address())?;
        let mut slots = self.0.lock();
        let items = slots.change()?;
        let position = position.min(items.len());
        items.insert(position, value);
        Ok(())
    }

    /// Takes one element out.
    pub fn remove(&self, position: usize) -> Option<Json> {
        let mut slots = self.0.lock();
        if position >= slots.items.len() {
            return None;
        }
        Some(slots.change().ok()?.remove(position))
    }

    /// Puts other elements in place of all there were.
    pub fn replace(&self, items: Vec<Json>) -> Result<(), MisplacedValue> {
        check_places(&items, self.address())?;
        let mut slots = self.0.lock();
        let old = std::mem::replace(slots.change()?, items);
        drop(slots);
        drop(old);
        Ok(())
    }

    /// Returns `true` if both are the same container.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if elements were replaced, added or taken out.
    pub(super) fn is_changed(&self) -> bool {
        self.0.lock().state == State::Changed
    }

    /// Returns `true` if nobody may change it.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.lock().state == State::Frozen
    }

    /// From now on nobody replaces, adds or takes out elements.
    pub(super) fn freeze(&self) {
        self.0.lock().state = State::Frozen;
    }

    /// Puts elements into an array that was just made.
    pub(super) fn fill(&self, items: Vec<Json>) {
        self.0.lock().items = items;
    }

    /// Returns `true` if there are other handles on it.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl Object {
    /// A map of these entries; of a key that comes twice, the last value counts.
    pub fn new(entries: Vec<(CompactString, Json)>) -> Self {
        Self(Arc::new(Mutex::new(Slots { items: Fields::of(entries), state: State::Read })))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One that stays in its document until somebody asks what is in it.
    pub(super) fn unread(unread: Unread) -> Self {
        Self(Arc::new(Mutex::new(Slots { items: Fields::Unread(unread), state: State::Read })))
    }

    /// The text of its document, where nobody has asked what is in it.
    pub(super) fn as_unread(&self) -> Option<Unread> {
        self.0.lock().items.as_unread().cloned()
    }

    /// The length of its text in its document, where nobody has asked what is in it.
    pub(super) fn unread_length(&self) -> usize {
        self.0.lock().items.as_unread().map_or(0, |unread| unread.spelling().len())
    }

    /// Looks at the values that are read: among those that are not, there are no containers.
    pub(super) fn each_read(&self, look: impl FnMut(&Json)) {
        self.0.lock().items.values_read().for_each(look);
    }

    /// Returns `true` if there are lists or maps in it.
    pub fn has_containers(&self) -> bool {
        self.0.lock().items.has_containers()
    }

    /// Returns `true` if the key is there.
    pub fn contains(&self, key: &str) -> bool {
        self.0.lock().items.contains(key)
    }

    /// Returns `true` if one key is there and another is not.
    pub fn has_and_lacks(&self, one: &str, other: &str) -> bool {
        let mut slots = self.0.lock();
        slots.items.contains(one) && !slots.items.contains(other)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Json> {
        self.0.lock().items.get(key).cloned()
    }

    /// Returns the value of a key; null where it is missing.
    pub fn field(&self, key: &str) -> Json {
        self.get(key).unwrap_or(Json::Null)
    }

    /// Returns `true` if a key's value is a text that says something.
    pub fn has_text(&self, key: &str) -> bool {
        self.0.lock().items.has_text(key)
    }

    /// Looks at a key's value in place. The look must not lead back to this object.
    pub fn with<R>(&self, key: &str, look: impl FnOnce(Option<&Json>) -> R) -> R {
        self.0.lock().items.with(key, look)
    }

    /// Sets a key; putting back the same container changes nothing.
    pub fn set(&self, key: &str, value: Json) -> Result<(), MisplacedValue> {
        if is_container(&value) {
            if self.with(key, |slot| slot.is_some_and(|slot| slot.is_same(&value))) {
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

    /// Sets a key of an object that the caller made and nobody else has.
    ///
    /// # Panics
    /// Panics in debug builds if it does not take the value; in others it stays as it is.
    pub fn put(&self, key: &str, value: Json) {
        let put = self.set(key, value);
        debug_assert!(put.is_ok(), "cannot put {key:?} into an object: {put:?}");
    }

    /// Sets a key; an object that is read-only or would contain itself stays as it is.
    pub fn edit(&self, key: &str, value: Json) {
        if let Err(why) = self.set(key, value) {
            use MisplacedValue::{Cycle, Frozen, TooDeep};
            debug_assert!(matches!(why, Cycle | Frozen | TooDeep), "cannot edit {key:?}: {why}");
        }
    }

    /// Takes a key out; the order of the others stays.
    pub fn remove(&self, key: &str) -> Option<Json> {
        let mut slots = self.0.lock();
        if !slots.items.contains(key) {
            return None;
        }
        slots.change().ok()?.remove(key)
    }

    /// Takes all keys out.
    pub fn clear(&self) {
        let old = self.0.lock().change().map(std::mem::take);
        drop(old);
    }

    /// Puts another map's keys in place of all there were.
    pub fn replace(&self, entries: Vec<(CompactString, Json)>) -> Result<(), MisplacedValue> {
        check_places(entries.iter().map(|(_, value)| value), self.address())?;
        let mut slots = self.0.lock();
        let old = std::mem::replace(slots.change()?, Fields::of(entries));
        drop(slots);
        drop(old);
        Ok(())
    }

    /// The keys, in order.
    pub fn keys(&self) -> Vec<CompactString> {
        self.0.lock().items.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Keys and values, in order; containers among them are shared.
    pub fn entries(&self) -> Vec<(CompactString, Json)> {
        self.0.lock().items.iter().cloned().collect()
    }

    /// Looks at keys and values in place, in order. The look must not lead back to this object.
    pub fn for_each(&self, mut look: impl FnMut(&str, &Json)) {
        for (key, value) in self.0.lock().items.iter() {
            look(key, value);
        }
    }

    /// Returns `true` if both are the same container.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if keys were set or taken out.
    pub(super) fn is_changed(&self) -> bool {
        self.0.lock().state == State::Changed
    }

    /// Returns `true` if nobody may change it.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.lock().state == State::Frozen
    }

    /// From now on nobody sets or takes out keys.
    pub(super) fn freeze(&self) {
        self.0.lock().state = State::Frozen;
    }

    /// Puts entries into an object that was just made.
    pub(super) fn fill(&self, entries: Vec<(CompactString, Json)>) {
        self.0.lock().items = Fields::of(entries);
    }

    /// Returns `true` if there are other handles on it.
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
    /// The number of containers that are being freed within one another on this thread.
    static FREEING: Cell<usize> = const { Cell::new(0) };
}

/// As deep as containers are freed by simply letting go of them.
const FREED_WITHIN: usize = 32;

/// Below a depth that takes little stack, nested containers are freed in a loop: however deep a
/// script nested them.
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
    fn however_deep_a_value_is_nested_it_is_freed() {
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
