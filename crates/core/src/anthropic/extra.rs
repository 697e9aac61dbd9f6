//! Fields beyond those that are translated: they travel along.

use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// The field in which a message keeps what Anthropic's blocks say beyond text, thinking and calls.
pub const CONTENT_BLOCKS: &str = "content_blocks";

/// The field in which a request keeps what only Anthropic understands.
pub const ONLY_ANTHROPIC: &str = "anthropic";

/// The fields of an object apart from these. What is null says nothing.
pub(super) fn others(of: &Json, except: &[&str]) -> Vec<(CompactString, Json)> {
    let fields = of.entries();
    let is_other = |(key, value): &(CompactString, Json)| !except.contains(&&**key) && !value.is_null();
    fields.into_iter().filter(is_other).map(|(key, value)| (key, value.copy())).collect()
}

/// An object of these fields and the others.
pub(super) fn with_others<const N: usize>(
    fields: [(&str, Json); N],
    others: Vec<(CompactString, Json)>,
) -> Json {
    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
    fields.chain(others).collect::<Object>().into()
}
