//! The map that stores withheld texts between events.

use valvehouse_json::Json;

/// The key of the withheld texts and calls, by choice.
pub(super) const HELD: &str = "held";
/// The key that is set for a choice that ends without a `finish_reason`.
pub(super) const OVER: &str = "over";
/// The key of a choice's withheld texts, by lane.
pub(super) const LANES: &str = "lanes";

/// Returns the map under a key, creating it if it is missing.
pub(super) fn child(of: &Json, key: &str) -> Json {
    match of.get(key) {
        Some(found @ Json::Object(_)) => found,
        _ => {
            let made = Json::object();
            // A new object can be stored anywhere.
            of.edit(key, made.clone());
            made
        }
    }
}
