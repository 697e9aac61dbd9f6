//! Keeps the order in which the keys of a map literal are written.
//!
//! Rhai's own maps sort their keys. A map from a literal in another order has the number of that order as its tag,
//! which copies keep. Its entries are listed in that order, followed by the keys that were added later.

use rhai::{Array, Dynamic, Map};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The tag of a list that is a pair of two values, such as the key and value of an entry.
pub const PAIR: i32 = 1;

/// The key orders of all scripts.
static ORDERS: RwLock<Table> = RwLock::new(Table { places: Vec::new(), free: Vec::new() });

/// The orders by number. The tag of a map is the number of its order plus one.
struct Table {
    places: Vec<Option<Arc<Order>>>,
    free: Vec<usize>,
}

/// The sorted keys, each with its position in the literal.
type Order = [(Box<str>, usize)];

/// The key orders of the literals in one script. The last clone removes them.
#[derive(Clone, Debug, Default)]
pub struct KeyOrders(Arc<OwnOrders>);

#[derive(Debug, Default)]
struct OwnOrders(Mutex<HashMap<Vec<String>, usize>>);

impl KeyOrders {
    /// Returns the tag of maps with these keys; `None` if the keys are sorted.
    pub(crate) fn tag<'a>(&self, keys: impl Iterator<Item = &'a str> + Clone) -> Option<i64> {
        if keys.clone().is_sorted() {
            return None;
        }
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        let mut own = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match own.get(&keys) {
            Some(place) => *place,
            None => {
                let place = add(&keys)?;
                own.insert(keys, place);
                place
            }
        };
        i64::try_from(place + 1).ok()
    }
}

/// Sets the key order of a map.
pub(crate) fn set(map: &mut Dynamic, tag: i64) {
    if let Ok(tag) = tag.try_into() {
        map.set_tag(tag);
    }
}

/// Adds an order; returns `None` if no tag is left.
fn add(keys: &[String]) -> Option<usize> {
    let mut order: Vec<(Box<str>, usize)> =
        keys.iter().enumerate().map(|(place, key)| (key.as_str().into(), place)).collect();
    order.sort();
    let order: Arc<Order> = order.into();
    let mut table = ORDERS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = table.free.pop() {
        table.places[place] = Some(order);
        return Some(place);
    }
    // The width of a tag depends on the platform.
    let mut tagged = Dynamic::UNIT;
    set(&mut tagged, i64::try_from(table.places.len() + 1).ok()?);
    if tagged.tag() == 0 {
        return None;
    }
    table.places.push(Some(order));
    Some(table.places.len() - 1)
}

impl Drop for OwnOrders {
    fn drop(&mut self) {
        let own = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut table = ORDERS.write().unwrap_or_else(PoisonError::into_inner);
        for place in own.values() {
            table.places[*place] = None;
            table.free.push(*place);
        }
    }
}

fn of(map: &Dynamic) -> Option<Arc<Order>> {
    let place = usize::try_from(map.tag()).ok()?.checked_sub(1)?;
    ORDERS.read().unwrap_or_else(PoisonError::into_inner).places.get(place)?.clone()
}

/// Returns the entries of a map in the order of its literal; `None` if they are sorted.
pub(super) fn entries<'a>(tagged: &Dynamic, map: &'a Map) -> Option<Vec<(&'a str, &'a Dynamic)>> {
    let order = of(tagged)?;
    let mut known = order.iter().peekable();
    let mut entries: Vec<(usize, &str, &Dynamic)> = Vec::with_capacity(map.len());
    for (key, value) in map {
        while known.next_if(|(known, _)| **known < **key).is_some() {}
        let place = known.next_if(|(known, _)| **known == **key).map_or(usize::MAX, |(_, place)| *place);
        entries.push((place, key, value));
    }
    // The sort is stable: added keys remain sorted.
    entries.sort_by_key(|(place, ..)| *place);
    Some(entries.into_iter().map(|(_, key, value)| (key, value)).collect())
}

/// Returns the keys of a native map in order.
pub(super) fn keys(tagged: &Dynamic) -> Array {
    let Ok(map) = tagged.as_map_ref() else { return Array::new() };
    match entries(tagged, &map) {
        Some(entries) => entries.into_iter().map(|(key, _)| key.into()).collect(),
        None => map.keys().map(|key| key.as_str().into()).collect(),
    }
}

/// Reorders the values of a map from the order of its sorted keys to its own.
pub(crate) fn in_order_of(tagged: &Dynamic, values: Dynamic) -> Dynamic {
    let Ok(map) = tagged.as_map_ref() else { return values };
    match entries(tagged, &map) {
        Some(entries) => entries.into_iter().map(|(_, value)| value.clone()).collect::<Array>().into(),
        None => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{dynamic_of, json_of};
    use valvehouse_json::Json;

    fn map(keys: &[&str]) -> Dynamic {
        keys.iter().map(|key| ((*key).into(), Dynamic::ONE)).collect::<Map>().into()
    }

    #[test]
    fn keys_are_listed_as_written_with_added_ones_at_the_end() {
        let orders = KeyOrders::default();
        let tag = orders.tag(["b", "c", "a"].into_iter()).unwrap();
        for (has, expected) in [
            (vec!["a", "b", "c"], r#"{"b":1,"c":1,"a":1}"#),
            (vec!["a", "c"], r#"{"c":1,"a":1}"#),
            (vec!["0", "a", "aa", "b", "z"], r#"{"b":1,"a":1,"0":1,"aa":1,"z":1}"#),
            (vec![], "{}"),
        ] {
            let mut map = map(&has);
            set(&mut map, tag);
            assert_eq!(json_of(&map).unwrap().to_string(), expected);
            assert_eq!(json_of(&map.clone()).unwrap().to_string(), expected);
        }
        assert_eq!(orders.tag(["b", "c", "a"].into_iter()), Some(tag));
        assert_eq!(orders.tag(["a", "b"].into_iter()), None);
    }

    #[test]
    fn a_key_order_is_dropped_with_its_script() {
        let mut tagged = map(&["a", "b"]);
        let orders = KeyOrders::default();
        set(&mut tagged, orders.tag(["b", "a"].into_iter()).unwrap());
        let other = orders.clone();
        drop(orders);
        assert!(of(&tagged).is_some());
        drop(other);
        // Another test may have taken its number.
        assert!(
            of(&tagged).is_none_or(|order| order.len() > 2 || order[1].0 != "b".into() || order.is_empty())
        );
    }

    #[test]
    fn an_invalid_order_tag_is_ignored() {
        for tag in [-1, 1 << 20, i64::MAX] {
            let mut map = map(&["a", "b"]);
            set(&mut map, tag);
            assert_eq!(json_of(&map).unwrap().to_string(), r#"{"a":1,"b":1}"#);
        }
    }

    #[test]
    fn a_map_copied_from_json_keeps_its_order() {
        let json = Json::parse(br#"{"b":[{"d":1,"c":{}}],"a":null}"#).unwrap();
        let orders = KeyOrders::default();
        assert_eq!(json_of(&orders.dynamic_of(&json)).unwrap().to_string(), json.to_string());
        assert_eq!(json_of(&dynamic_of(&json)).unwrap(), json);
    }
}
