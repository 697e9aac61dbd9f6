//! The map in which texts wait, from one event to the next.

use valvehouse_json::Json;

/// The key under which waiting texts and calls are stored, by choice.
pub(super) const HELD: &str = "held";
/// The key that is set for a choice that ends without a reason.
pub(super) const OVER: &str = "over";
/// The texts of a choice that wait, by lane.
pub(super) const LANES: &str = "lanes";

/// The map under a key, made where there is none.
pub(super) fn child(of: &Json, key: &str) -> Json {
    match of.get(key) {
        Some(found @ Json::Object(_)) => found,
        _ => {
            let made = Json::object();
            // A new object fits anywhere.
            of.edit(key, made.clone());
            made
        }
    }
}
