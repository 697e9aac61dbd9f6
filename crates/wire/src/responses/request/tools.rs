//! Conversion of a request's tools and tool choice to the chat format.

use crate::responses::tools::{self, Spaces, joined};
use std::collections::HashSet;
use valvehouse_core::chat::delta::call_name;
use valvehouse_core::chat::items::ADDITIONAL_TOOLS;
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

impl Tools {
    /// Reads `tools`, those of the conversation's items, and `tool_choice`. A later tool replaces an earlier one of
    /// an item.
    ///
    /// # Errors
    /// Returns a request error if a tool has no name.
    pub(super) fn read(sent: &Json, conversation: &[Json]) -> Result<Self, Error> {
        let mut tools = Self::default();
        for (index, tool) in sent.list("tools").iter().enumerate() {
            tools.add(tool, &format!("tools[{index}]"), None)?;
        }
        let is_such = |item: &&Json| item.is_text("type", ADDITIONAL_TOOLS);
        for tool in conversation.iter().filter(is_such).flat_map(|item| item.list("tools")) {
            tools.add(&tool, ADDITIONAL_TOOLS, None)?;
        }
        tools.choice = tools.choice_of(sent);
        Ok(tools)
    }

    fn add(&mut self, tool: &Json, place: &str, space: Option<&str>) -> Result<(), Error> {
        let kind = tool.text_or_empty("type");
        let named = |what: &str| {
            tool.text("name").filter(|name| !name.is_empty()).ok_or_else(|| {
                Error::invalid(format!("missing {place}.name: a {what} needs a name"), Some("tools"))
            })
        };
        if kind == "namespace" && space.is_none() {
            let space = named("namespace")?;
            let inner = tool.list("tools");
            return inner.iter().try_for_each(|tool| self.add(tool, place, Some(&space)));
        }
        if !tools::is_called(tool) {
            if place != ADDITIONAL_TOOLS || !self.listed.contains(tool) {
                self.listed.push(tool.deep_clone());
            }
            return Ok(());
        }
        let name = named("tool")?;
        let name = match space {
            Some(space) => {
                let joined = joined(space, &name);
                self.spaces.insert(joined.clone(), (space.to_owned(), name.into()));
                joined
            }
            None => name.into(),
        };
        let listed = tools::to_chat(tool, &name);
        if kind == "custom" {
            self.custom.insert(name.clone());
        }
        let earlier = self.listed.iter_mut().find(|own| place == ADDITIONAL_TOOLS && call_name(own) == name);
        match earlier {
            Some(earlier) => *earlier = listed,
            None => self.listed.push(listed),
        }
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
