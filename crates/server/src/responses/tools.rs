//! Conversion of a request's tools and tool choice to the chat format.

use super::object::object;
use std::collections::{HashMap, HashSet};
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// The tools of a request in the chat format. Hosted tools, which only their own provider runs, are listed
/// unchanged.
#[derive(Debug, Default)]
pub(super) struct Tools {
    listed: Vec<Json>,
    /// The names of the custom tools, whose input is a text.
    custom: HashSet<String>,
    choice: Option<Json>,
    /// The functions of namespaces, by their names in the chat.
    spaces: Spaces,
}

/// The namespace and the name of each function in a namespace, by its name in the chat.
pub(super) type Spaces = HashMap<String, (String, String)>;

/// Returns the name in the chat of a function in a namespace.
pub(super) fn joined(space: &str, name: &str) -> String {
    let between = if space.ends_with("__") { "" } else { "__" };
    format!("{space}{between}{name}")
}

impl Tools {
    /// Reads `tools` and `tool_choice`.
    ///
    /// # Errors
    /// Returns a request error if a tool has no name.
    pub(super) fn read(sent: &Json) -> Result<Self, Error> {
        let mut tools = Self::default();
        for (index, tool) in sent.list("tools").iter().enumerate() {
            tools.add(tool, index, None)?;
        }
        tools.choice = tools.choice_of(sent);
        Ok(tools)
    }

    fn add(&mut self, tool: &Json, index: usize, space: Option<&str>) -> Result<(), Error> {
        let kind = tool.text_or_empty("type");
        if kind == "namespace" && space.is_none() {
            let space = tool.text("name").filter(|name| !name.is_empty()).ok_or_else(|| {
                Error::invalid(
                    format!("missing tools[{index}].name: a namespace needs a name"),
                    Some("tools"),
                )
            })?;
            let inner = tool.list("tools");
            return inner.iter().try_for_each(|tool| self.add(tool, index, Some(&space)));
        }
        let is_custom = kind == "custom";
        if !is_custom && kind != "function" {
            self.listed.push(tool.deep_clone());
            return Ok(());
        }
        let name = tool.text("name").filter(|name| !name.is_empty()).ok_or_else(|| {
            Error::invalid(format!("missing tools[{index}].name: a tool needs a name"), Some("tools"))
        })?;
        let name = match space {
            Some(space) => {
                let joined = joined(space, &name);
                self.spaces.insert(joined.clone(), (space.to_owned(), name.into()));
                joined
            }
            None => name.into(),
        };
        let mut fields: Vec<(&str, Json)> = vec![("name", name.as_str().into())];
        let kind = if is_custom { "custom" } else { "function" };
        if is_custom {
            self.custom.insert(name);
            fields.extend(tool.given("description").map(|text| ("description", text)));
            fields.extend(tool.given("format").map(|format| ("format", grammar(&format))));
        } else {
            for key in ["description", "parameters", "strict"] {
                fields.extend(tool.given(key).map(|value| (key, value.deep_clone())));
            }
        }
        self.listed.push(Json::from([("type", kind.into()), (kind, object(fields))]));
        Ok(())
    }

    fn choice_of(&mut self, sent: &Json) -> Option<Json> {
        let choice = sent.given("tool_choice")?;
        if choice.as_str().is_some() {
            return (!self.listed.is_empty()).then_some(choice);
        }
        let kind = choice.text_or_empty("type");
        match &*kind {
            "function" | "custom" => {
                let named = Json::from([("name", choice.field("name"))]);
                Some(Json::from([("type", kind.clone().into()), (&*kind, named)]))
            }
            "allowed_tools" => {
                let allowed = choice.list("tools");
                let allowed: HashSet<String> =
                    allowed.iter().filter_map(|tool| tool.text("name").map(String::from)).collect();
                self.listed.retain(|tool| {
                    let name = ["function.name", "custom.name"]
                        .iter()
                        .find_map(|path| tool.at_path(path).as_str().map(str::to_owned));
                    name.is_none_or(|name| allowed.contains(&name))
                });
                choice.get("mode").filter(|_| !self.listed.is_empty())
            }
            // A hosted tool is passed on, because the provider may support it.
            _ => Some(choice.deep_clone()),
        }
    }

    /// Returns the fields of the chat request.
    pub(super) fn fields(&self) -> Vec<(&'static str, Json)> {
        let mut fields = Vec::new();
        if !self.listed.is_empty() {
            fields.push(("tools", self.listed.clone().into()));
        }
        fields.extend(self.choice.clone().map(|choice| ("tool_choice", choice)));
        fields
    }

    /// Returns the functions of namespaces.
    pub(super) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns `true` if a custom tool has this name.
    pub(super) fn is_custom(&self, name: &str) -> bool {
        self.custom.contains(name)
    }
}

/// Converts the format of a custom tool's input to the chat format.
fn grammar(format: &Json) -> Json {
    if format.text("type").is_none_or(|kind| kind != "grammar") {
        return format.deep_clone();
    }
    let parts = ["syntax", "definition"].map(|key| (key, format.field(key)));
    Json::from([("type", "grammar".into()), ("grammar", Json::from(parts))])
}
