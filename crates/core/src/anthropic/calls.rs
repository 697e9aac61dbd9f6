//! The calls of a streamed answer, put together from their pieces, and which of them may be written.

use super::extra::{others, with_others};
use crate::chat::delta::{call_name, is_custom};
use compact_str::CompactString;
use valvehouse_json::Json;

/// All calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Calling>);

#[derive(Debug)]
struct Calling {
    index: i64,
    id: CompactString,
    name: CompactString,
    beside: Vec<(CompactString, Json)>,
    arguments: String,
    /// A text of any form, which is sent when it has come whole: Anthropic's inputs are objects.
    is_custom: bool,
    /// Is `true` if its block has begun.
    begun: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in a piece: which call it is of, and what more of its arguments.
    pub(super) fn take(&mut self, place: usize, piece: &Json) -> (usize, CompactString) {
        let is_custom = is_custom(piece);
        let function = piece.field("function");
        let more = match function.get("arguments") {
            _ if is_custom => piece.at_path("custom.input").str_or_empty().into(),
            Some(Json::Text(text)) => text.into(),
            None | Some(Json::Null) => CompactString::default(),
            Some(value) => value.to_string().into(),
        };
        let at = self.find(piece).unwrap_or_else(|| {
            let id = piece.text("id").filter(|id| !id.is_empty());
            self.0.push(Calling {
                index: piece.get("index").and_then(|index| index.as_i64()).unwrap_or(place as i64),
                id: id.unwrap_or_else(|| format!("toolu_{}", uuid::Uuid::new_v4().simple()).into()),
                name: call_name(piece),
                beside: others(piece, &["index", "id", "type", "function", "custom"]),
                arguments: String::new(),
                is_custom,
                begun: false,
            });
            self.0.len() - 1
        });
        self.0[at].arguments.push_str(&more);
        (at, more)
    }

    /// The call that a piece continues: the last of its index, unless it begins one of its own. Without
    /// an index a name begins the next call.
    fn find(&self, piece: &Json) -> Option<usize> {
        let index = piece.get("index").and_then(|index| index.as_i64());
        let id = piece.text_or_empty("id");
        let name = call_name(piece);
        let at = self.0.iter().rposition(|call| index.is_none_or(|index| index == call.index))?;
        let is_same = id == self.0[at].id;
        let goes_on = match index {
            Some(_) => id.is_empty() || is_same || name.is_empty(),
            None => is_same || name.is_empty(),
        };
        goes_on.then_some(at)
    }

    /// Returns `true` if a call's block may begin: when those before it are whole. Else it waits, since a block that is
    /// ended cannot go on.
    pub(super) fn may_begin(&self, at: usize) -> bool {
        !self.0[at].begun
            && !self.0[at].is_custom
            && (0..at).all(|before| self.0[before].begun && self.is_whole(before))
    }

    /// Returns `true` if all of a call's arguments have come.
    pub(super) fn is_whole(&self, at: usize) -> bool {
        matches!(Json::parse(self.0[at].arguments.as_bytes()), Ok(Json::Object(_)))
    }

    /// The first call whose block has not begun.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        self.0.iter().position(|call| !call.begun)
    }

    /// A call's block as it begins, and its arguments so far.
    pub(super) fn begin(&mut self, at: usize) -> (Json, String) {
        let call = &mut self.0[at];
        call.begun = true;
        let fields = [
            ("type", "tool_use".into()),
            ("id", call.id.clone().into()),
            ("name", call.name.clone().into()),
            ("input", Json::object()),
        ];
        let input = match call.is_custom {
            true => Json::from([("input", call.arguments.clone().into())]).to_string(),
            false => call.arguments.clone(),
        };
        (with_others(fields, std::mem::take(&mut call.beside)), input)
    }
}
