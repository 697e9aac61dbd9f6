//! Traversals of entire values. They are iterative, so that deep nesting by a script takes no stack, and visit
//! a container once even if it occurs in many places: containers that hold each other twice would otherwise
//! expand exponentially.

use crate::value::{Json, MAX_DEPTH, MisplacedValue, Object};

/// A hash map keyed by address, which outsiders cannot choose, so a fast hash is safe.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

/// The maximum depth of a quick recursive traversal.
const MAX_NESTING: usize = 16;
/// The maximum number of values of a quick traversal.
const MAX_VALUES: usize = 10_000;
/// The number of values that can be visited again faster than their container can be looked up.
const QUICK: usize = 16;
/// The number of addresses that are compared faster than a table of them is made.
const QUICK_REPEATS: usize = 32;

impl Json {
    /// Returns a deep copy, which shares nothing with this value. A container that occurs in several places of
    /// this value does so in the copy as well.
    #[must_use]
    pub fn deep_clone(&self) -> Self {
        let mut copies = Copies::default();
        let copy = copies.of(self);
        while let Some((original, copy)) = copies.empty.pop() {
            match (original, copy) {
                (Self::Array(original), Self::Array(copy)) => {
                    copy.fill(original.with(|items| items.iter().map(|item| copies.of(item)).collect()));
                }
                (Self::Object(original), Self::Object(copy)) => {
                    let mut entries = Vec::with_capacity(original.len());
                    original.for_each(|key, value| entries.push((key.into(), copies.of(value))));
                    copy.fill(entries);
                }
                _ => {}
            }
        }
        copy
    }

    /// Returns `true` if the value contains more than `most` arrays and objects.
    pub fn has_more_containers_than(&self, most: usize) -> bool {
        let (mut walk, mut met) = (Walk::from(self), 0);
        while let Some(value) = walk.next_container() {
            met += usize::from(value.address().is_some());
            if met > most {
                return true;
            }
            walk.enter(&value);
        }
        false
    }

    /// Returns `true` if the value was changed since it was parsed; this checks each of its containers.
    pub fn is_changed(&self) -> bool {
        self.is_changed_within(MAX_NESTING, &mut { MAX_VALUES }).unwrap_or_else(|| self.is_changed_anywhere())
    }

    /// Checks for a change recursively within limits, without allocating. Containers that occur in several
    /// places are visited in each.
    fn is_changed_within(&self, depth: usize, left: &mut usize) -> Option<bool> {
        if self.is_changed_itself() {
            return Some(true);
        }
        let mut changed = Some(false);
        self.each_inside(|inside| {
            *left = left.saturating_sub(1);
            if changed == Some(false) && inside.address().is_some() {
                let is_near = depth > 0 && *left > 0;
                changed = is_near.then(|| inside.is_changed_within(depth - 1, left)).flatten();
            }
        });
        changed
    }

    fn is_changed_anywhere(&self) -> bool {
        let mut walk = Walk::from(self);
        while let Some(value) = walk.next_container() {
            if value.is_changed_itself() {
                return true;
            }
            walk.enter(&value);
        }
        false
    }

    /// Returns `true` for a read-only object or array.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Array(array) => array.is_read_only(),
            Self::Object(object) => object.is_read_only(),
            _ => false,
        }
    }

    /// Makes the value and all values in it read-only, so that it can be shared safely.
    pub fn freeze(self) -> Self {
        let mut walk = Walk::from(&self);
        while let Some(value) = walk.next_container() {
            value.freeze_itself();
            walk.enter(&value);
        }
        self
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = Pairs::default();
        if !pairs.may_be_equal(self, other) {
            return false;
        }
        while let Some((left, right)) = pairs.waiting.pop() {
            let equal = match (left, right) {
                (Self::Array(left), Self::Array(right)) => {
                    let right = right.items();
                    left.with(|left| {
                        left.len() == right.len()
                            && left.iter().zip(&right).all(|(left, right)| pairs.may_be_equal(left, right))
                    })
                }
                (Self::Object(left), Self::Object(right)) => {
                    left.len() == right.len()
                        && left.entries().iter().all(|(key, value)| {
                            right.get(key).is_some_and(|other| pairs.may_be_equal(value, &other))
                        })
                }
                _ => false,
            };
            if !equal {
                return false;
            }
        }
        true
    }
}

/// The approximate size of a value in bytes, without its text.
const VALUE: usize = 64;

impl Json {
    /// Returns the approximate memory size in bytes, counting each container once.
    pub fn size_estimate(&self) -> usize {
        let own = |value: &Self| {
            let raw = match value {
                Self::Text(text) => text.size_estimate(),
                Self::Object(object) => object.with_spelling(<[u8]>::len).unwrap_or(0),
                _ => 0,
            };
            VALUE + raw
        };
        let mut weight = own(self);
        let mut walk = Walk::from(self);
        while let Some(container) = walk.next_container() {
            container.each_inside(|inside| weight += own(inside));
            walk.enter(&container);
        }
        weight
    }
}

/// Returns an error if a value contains its target container or is nested too deep.
pub(super) fn check_place(value: &Json, target: usize) -> Result<(), MisplacedValue> {
    check_places([value], target)
}

/// Checks several values as [`check_place`] does.
pub(super) fn check_places<'a>(
    values: impl IntoIterator<Item = &'a Json>,
    target: usize,
) -> Result<(), MisplacedValue> {
    let mut heights = Heights { target, known: HashMap::default() };
    values.into_iter().try_for_each(|value| heights.of(value, 1).map(drop))
}

/// A set that detects containers that occur in several places of a value.
#[derive(Default)]
pub struct Repeats {
    /// The first addresses; most values share few containers, and a table costs an allocation.
    first: [usize; QUICK_REPEATS],
    count: usize,
    others: HashSet<usize>,
}

impl Repeats {
    /// Returns `true` if this container was passed before.
    pub fn is_repeated(&mut self, value: &Json) -> bool {
        // A container with one handle cannot occur again.
        value.is_shared() && value.address().is_some_and(|address| !self.insert(address))
    }

    /// Returns `false` if the address is in the set already.
    fn insert(&mut self, address: usize) -> bool {
        if self.first[..self.count].contains(&address) {
            return false;
        }
        if self.count < QUICK_REPEATS {
            self.first[self.count] = address;
            self.count += 1;
            return true;
        }
        self.others.insert(address)
    }
}

/// The containers that remain to be visited.
struct Walk {
    waiting: Vec<Json>,
    seen: Repeats,
}

impl Walk {
    fn from(value: &Json) -> Self {
        Self { waiting: vec![value.clone()], seen: Repeats::default() }
    }

    fn next_container(&mut self) -> Option<Json> {
        self.waiting.pop()
    }

    fn enter(&mut self, value: &Json) {
        let Self { waiting, seen } = self;
        value.each_inside(|inside| {
            if inside.address().is_some() && !seen.is_repeated(inside) {
                waiting.push(inside.clone());
            }
        });
    }
}

/// A copy in progress.
#[derive(Default)]
struct Copies {
    /// The originals with their copies, which are still empty.
    empty: Vec<(Json, Json)>,
    /// The copies of containers that may occur in several places. The originals are retained, so that their
    /// addresses are not reused.
    made: HashMap<usize, (Json, Json)>,
}

impl Copies {
    fn of(&mut self, value: &Json) -> Json {
        let Some(address) = value.address() else { return value.clone() };
        if let Some((_, copy)) = self.made.get(&address) {
            return copy.clone();
        }
        let unread = value.as_object().and_then(Object::as_unread);
        let is_empty = unread.is_none();
        let copy = match (value, unread) {
            (_, Some(unread)) => Json::Object(Object::unread(unread)),
            (Json::Array(_), _) => Json::array(),
            _ => Json::object(),
        };
        if value.is_shared() {
            self.made.insert(address, (value.clone(), copy.clone()));
        }
        if is_empty {
            self.empty.push((value.clone(), copy.clone()));
        }
        copy
    }
}

/// The pairs of containers that must be equal.
#[derive(Default)]
struct Pairs {
    waiting: Vec<(Json, Json)>,
    seen: HashSet<(usize, usize)>,
}

impl Pairs {
    /// Returns `true` if two values are equal without their containers' contents, which are compared later.
    fn may_be_equal(&mut self, left: &Json, right: &Json) -> bool {
        match (left, right) {
            (Json::Null, Json::Null) => true,
            (Json::Bool(left), Json::Bool(right)) => left == right,
            (Json::Number(left), Json::Number(right)) => left == right,
            (Json::Text(left), Json::Text(right)) => left == right,
            (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => {
                let new = match (left.address(), right.address()) {
                    (Some(one), Some(other)) => one != other && self.seen.insert((one, other)),
                    _ => false,
                };
                if new {
                    self.waiting.push((left.clone(), right.clone()));
                }
                true
            }
            _ => false,
        }
    }
}

/// The nesting heights of containers.
struct Heights {
    target: usize,
    /// The heights of containers that may occur in several places.
    known: HashMap<usize, usize>,
}

impl Heights {
    fn of(&mut self, value: &Json, depth: usize) -> Result<usize, MisplacedValue> {
        if depth > MAX_DEPTH {
            return Err(MisplacedValue::TooDeep);
        }
        let Some(address) = value.address() else { return Ok(0) };
        if address == self.target {
            return Err(MisplacedValue::Cycle);
        }
        if let Some(height) = self.known.get(&address) {
            return if depth + height > MAX_DEPTH { Err(MisplacedValue::TooDeep) } else { Ok(*height) };
        }
        let (mut height, mut count) = (Ok(0), 0);
        value.each_inside(|inside| {
            count += 1;
            if let Ok(highest) = height {
                height = self.of(inside, depth + 1).map(|inside| highest.max(inside + 1));
            }
        });
        if let Ok(height) = height
            && (height > 1 || count > QUICK)
            && value.is_shared()
        {
            self.known.insert(address, height);
        }
        height
    }
}

impl Json {
    /// Returns the address of a container.
    fn address(&self) -> Option<usize> {
        match self {
            Self::Array(array) => Some(array.address()),
            Self::Object(object) => Some(object.address()),
            _ => None,
        }
    }

    /// Returns `true` if a container has several handles.
    fn is_shared(&self) -> bool {
        match self {
            Self::Array(array) => array.is_shared(),
            Self::Object(object) => object.is_shared(),
            _ => false,
        }
    }

    /// Visits the values in a container, except unread plain values.
    fn each_inside(&self, look: impl FnMut(&Self)) {
        match self {
            Self::Array(array) => array.with(|items| items.iter().for_each(look)),
            Self::Object(object) => object.each_read(look),
            _ => {}
        }
    }

    fn is_changed_itself(&self) -> bool {
        match self {
            Self::Array(array) => array.is_changed(),
            Self::Object(object) => object.is_changed(),
            _ => false,
        }
    }

    fn freeze_itself(&self) {
        match self {
            Self::Array(array) => array.freeze(),
            Self::Object(object) => object.freeze(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hundred nested lists that expand to more values than there are atoms.
    fn laughs() -> Json {
        let mut list = Json::from(vec![Json::from("ha")]);
        for _ in 0..100 {
            list = vec![list.clone(), list].into();
        }
        list
    }

    #[test]
    fn a_shared_value_is_visited_once() {
        let (list, body) = (laughs(), Json::object());
        body.set("list", list.clone()).unwrap();
        let copy = body.deep_clone();
        assert!(!copy.is_changed() && body.is_changed());
        let twice = copy.get("list").unwrap();
        assert!(twice.at(0).unwrap().ptr_eq(&twice.at(1).unwrap()) && !twice.ptr_eq(&list));
        assert!(copy == body);
        twice.at(0).unwrap().as_array().unwrap().push(Json::Null).unwrap();
        assert!(copy != body);
        let inner = std::iter::successors(Some(list.clone()), |list| list.at(0)).nth(100).unwrap();
        let into_itself = inner.as_array().unwrap().push(list.clone());
        assert_eq!(into_itself, Err(MisplacedValue::Cycle));
        assert!(list.freeze().at(0).unwrap().as_array().unwrap().push(Json::Null).is_err());
    }

    /// The list occurs as often as it is long; visiting each occurrence would take hours.
    #[test]
    fn a_shared_long_list_is_visited_once() {
        let (long, body) = (Json::from(vec![Json::Null; 500_000]), Json::object());
        let many = Json::from(vec![long; 500_000]);
        body.set("many", many.clone()).unwrap();
        body.as_object().unwrap().replace(vec![("again".into(), many.clone())]).unwrap();
        assert!(!many.is_changed() && body.is_changed());
    }

    #[test]
    fn depth_counts_containers_at_every_position() {
        let nested = |depth| (0..depth).fold(Json::array(), |inner, _| vec![inner].into());
        let deep = nested(MAX_DEPTH - 3);
        assert_eq!(Json::array().as_array().unwrap().push(vec![deep.clone(), deep.clone()].into()), Ok(()));
        let deeper = Json::from(vec![deep.clone(), Json::from(vec![Json::from(vec![deep])])]);
        assert_eq!(Json::object().set("a", deeper), Err(MisplacedValue::TooDeep));
    }

    #[test]
    fn the_deepest_value_can_be_copied_and_compared() {
        let (root, depth) = (Json::array(), 1_000_000);
        let mut inner = root.clone();
        for _ in 0..depth {
            let next = Json::array();
            inner.as_array().unwrap().push(next.clone()).unwrap();
            inner = next;
        }
        drop(inner);
        let small = std::thread::Builder::new().stack_size(64 * 1024);
        let walked = small.spawn(move || {
            let copy = root.deep_clone();
            assert!(copy == root && !copy.is_changed() && root.is_changed());
            copy.freeze();
        });
        walked.unwrap().join().unwrap();
    }
}
