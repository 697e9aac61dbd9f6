//! The tools of the Responses API and their form in chats. Input items of the type `additional_tools` have tools
//! too: they are tools of the request, and go back to their place for a service with this API.

use std::collections::{HashMap, HashSet};
use valvehouse_core::chat::delta::call_name;
use valvehouse_json::{Json, Object};

/// The namespace and the name of each function in a namespace, by its name in the chat.
pub type Spaces = HashMap<String, (String, String)>;

/// Returns the name in the chat of a function in a namespace.
pub fn joined(space: &str, name: &str) -> String {
    let between = if space.ends_with("__") { "" } else { "__" };
    format!("{space}{between}{name}")
}

/// Returns `true` for a function or a custom tool. Other tools are run by their service.
pub(super) fn is_called(tool: &Json) -> bool {
    matches!(&*tool.text_or_empty("type"), "function" | "custom")
}

/// Converts a function or a custom tool to the chat format, under its name in the chat.
pub(super) fn to_chat(tool: &Json, name: &str) -> Json {
    let kind = tool.text_or_empty("type");
    let mut fields: Vec<(&str, Json)> = vec![("name", name.into())];
    if kind == "custom" {
        fields.extend(tool.given("description").map(|text| ("description", text)));
        fields.extend(tool.given("format").map(|format| ("format", grammar(&format))));
    } else {
        for key in ["description", "parameters", "strict"] {
            fields.extend(tool.given(key).map(|value| (key, value.deep_clone())));
        }
    }
    let fields: Object = fields.into_iter().map(|(key, value)| (key.into(), value)).collect();
    Json::from([("type", kind.clone().into()), (&*kind, fields.into())])
}

/// Converts the format of a custom tool's input to the chat format.
fn grammar(format: &Json) -> Json {
    if format.text("type").is_none_or(|kind| kind != "grammar") {
        return format.deep_clone();
    }
    let parts = ["syntax", "definition"].map(|key| (key, format.field(key)));
    Json::from([("type", "grammar".into()), ("grammar", Json::from(parts))])
}

/// Converts a tool of a chat to the Responses API by removing the nesting in an object named by its type. `of_chat` is set
/// unless the client uses this API, where functions are strict by default; in chats, they are not.
pub(super) fn to_response(tool: &Json, of_chat: bool) -> Json {
    let flat = flat(tool);
    let grammar = flat.at_path("format.grammar");
    if let Json::Object(grammar) = &grammar {
        let kind = [("type".into(), "grammar".into())];
        let format: Object = kind.into_iter().chain(grammar.entries()).collect();
        // The value fits into a new object.
        flat.edit("format", Json::from(format));
    }
    if of_chat && flat.is_text("type", "function") && flat.get("strict").is_none() {
        flat.edit("strict", false);
    }
    flat
}

/// Converts `{type, TYPE: {…}}` to `{type, …}`. Any other value stays unchanged.
pub(super) fn flat(nested: &Json) -> Json {
    let kind = nested.text_or_empty("type");
    let Some(Json::Object(inner)) = nested.get(&kind) else { return nested.clone() };
    let kind = [("type".into(), kind.into())];
    kind.into_iter().chain(inner.entries()).collect::<Object>().into()
}

/// The tools of a request while its `additional_tools` items are written for their service.
pub(super) struct AdditionalTools<'a> {
    tools: &'a [Json],
    /// The positions of the tools that an item has.
    placed: HashSet<usize>,
    spaces: Spaces,
}

impl<'a> AdditionalTools<'a> {
    /// Starts with the tools of a request, which its filters have seen.
    pub(super) fn new(tools: &'a [Json]) -> Self {
        Self { tools, placed: HashSet::new(), spaces: Spaces::new() }
    }

    /// Returns an item with those of its tools that the request still has, as they are now; `None` if none is left.
    pub(super) fn item(&mut self, item: &Json) -> Option<Json> {
        let tools: Vec<Json> = item.list("tools").iter().filter_map(|tool| self.tool(tool, None)).collect();
        (!tools.is_empty()).then(|| with_tools(item, tools))
    }

    fn tool(&mut self, tool: &Json, space: Option<&str>) -> Option<Json> {
        let name = tool.string("name");
        if space.is_none() && tool.is_text("type", "namespace") {
            let tools: Vec<Json> =
                tool.list("tools").iter().filter_map(|tool| self.tool(tool, Some(&name))).collect();
            return (!tools.is_empty()).then(|| with_tools(tool, tools));
        }
        if !is_called(tool) {
            let at = self.tools.iter().position(|own| own == tool)?;
            self.placed.insert(at);
            return Some(tool.clone());
        }
        let chat_name = space.map_or_else(|| name.clone(), |space| joined(space, &name));
        let at = self.tools.iter().position(|own| call_name(own) == chat_name)?;
        self.placed.insert(at);
        let own = &self.tools[at];
        let written = match *own == to_chat(tool, &chat_name) {
            true => tool.clone(),
            false => {
                let changed = to_response(own, false).deep_clone();
                changed.edit("name", name.as_str());
                changed
            }
        };
        if let Some(space) = space {
            self.spaces.insert(chat_name, (space.to_owned(), name));
        }
        Some(written)
    }

    /// Returns the tools that no item has, and the functions of the items' namespaces.
    pub(super) fn finish(self) -> (Vec<Json>, Spaces) {
        let rest = self.tools.iter().enumerate().filter(|(at, _)| !self.placed.contains(at));
        (rest.map(|(_, tool)| tool.clone()).collect(), self.spaces)
    }
}

fn with_tools(of: &Json, tools: Vec<Json>) -> Json {
    let entries = of.entries().into_iter();
    let mut tools = Some(tools);
    let entries = entries.map(|(key, value)| match tools.take_if(|_| key == "tools") {
        Some(tools) => (key, tools.into()),
        None => (key, value),
    });
    entries.collect::<Object>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    const ITEM: &str = r#"{"type":"additional_tools","id":"at_1","role":"developer","tools":[
        {"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec","format":{"type":"grammar","syntax":"lark","definition":"x"}},
        {"type":"function","name":"wait","parameters":{"type":"object"}}]},{"type":"web_search"}]}"#;

    /// The tools of [`ITEM`] as a server lists them for filters.
    fn listed() -> Vec<Json> {
        let item = json(ITEM);
        let space = item.at_path("tools.0");
        let inner = space.list("tools").into_iter();
        let inner = inner.map(|tool| to_chat(&tool, &joined("functions", &tool.string("name"))));
        inner.chain([item.at_path("tools.1")]).collect()
    }

    #[test]
    fn an_unchanged_item_returns_to_its_place() {
        let tools = [listed(), vec![to_chat(&json(r#"{"type":"function","name":"own"}"#), "own")]].concat();
        let mut additional = AdditionalTools::new(&tools);
        assert_eq!(additional.item(&json(ITEM)), Some(json(ITEM)));
        let (rest, spaces) = additional.finish();
        assert_eq!(rest, tools[3..]);
        assert_eq!(spaces["functions__exec"], ("functions".to_owned(), "exec".to_owned()));
    }

    #[test]
    fn removed_and_changed_tools_are_never_sent_in_their_old_form() {
        let tools = listed();
        tools[1].at_path("function").set("description", "new").unwrap();
        let mut additional = AdditionalTools::new(&tools[1..2]);
        let item = additional.item(&json(ITEM)).unwrap();
        let wait = item.at_path("tools.0.tools.0");
        assert_eq!((wait.string("name"), wait.string("description")), ("wait".into(), "new".into()));
        assert_eq!(item.list("tools").len(), 1);
        assert!(!item.to_string().contains("exec"));
        assert_eq!(AdditionalTools::new(&[]).item(&json(ITEM)), None);
    }
}
