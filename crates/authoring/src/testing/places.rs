//! The places outside of a test: hosts by URL, programs by command line.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use valvehouse_json::Json;

/// The answers of places in the order in which the test defined them, and the calls so far.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Answering>>);

#[derive(Default)]
struct Answering {
    places: Vec<Place>,
    calls: Vec<Json>,
}

/// The answers of a URL or a program.
pub(super) struct Place {
    /// The HTTP method, if other requests have other answers.
    pub(super) method: Option<String>,
    /// The name of the place, or a prefix of names before `*`.
    pub(super) name: String,
    answers: VecDeque<Json>,
}

impl Place {
    /// Returns `true` for the name of this place, or one that begins with it and continues with the separator.
    pub(super) fn is_meant(&self, name: &str, separator: char) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.name || name.split(separator).next() == Some(&self.name),
        }
    }
}

impl Places {
    /// Adds an answer of a place, whose name may end with `*`.
    pub(super) fn answers(&self, method: Option<&str>, name: &str, answer: Json) {
        let places = &mut self.0.lock().places;
        match places.iter_mut().find(|place| place.name == name && place.method.as_deref() == method) {
            Some(place) => place.answers.push_back(answer),
            None => places.push(Place {
                method: method.map(str::to_owned),
                name: name.to_owned(),
                answers: VecDeque::from([answer]),
            }),
        }
    }

    /// Returns the calls so far.
    pub(super) fn calls(&self) -> Vec<Json> {
        self.0.lock().calls.iter().map(Json::deep_clone).collect()
    }

    /// Records a call, and returns the next answer of the place with the highest rank; places without a rank are not
    /// meant. The last answer of a place is repeated.
    pub(super) fn next(&self, call: Json, rank: impl Fn(usize, &Place) -> Option<usize>) -> Option<Json> {
        let mut answering = self.0.lock();
        answering.calls.push(call);
        let ranked = answering.places.iter_mut().enumerate();
        let ranked = ranked.filter_map(|(number, place)| Some((rank(number, place)?, place)));
        let (_, place) = ranked.max_by_key(|(rank, _)| *rank)?;
        match place.answers.len() {
            0 | 1 => place.answers.front().cloned(),
            _ => place.answers.pop_front(),
        }
    }
}
