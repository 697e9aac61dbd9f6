//! Tools in the order they were given.

use super::callable::Tool;

/// Tools by name, in registration order. Two of one name: the later one wins.
#[derive(Clone, Debug, Default)]
pub struct Toolbox(Vec<Tool>);

impl Toolbox {
    /// A box of these tools.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let mut kept: Vec<Tool> = Vec::new();
        for tool in tools {
            match kept.iter_mut().find(|other| other.name() == tool.name()) {
                Some(place) => *place = tool,
                None => kept.push(tool),
            }
        }
        Self(kept)
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    /// The tools with a tag.
    pub fn tagged<'a>(&'a self, tag: &str) -> impl Iterator<Item = &'a Tool> {
        self.0.iter().filter(move |tool| tool.spec.tags.iter().any(|own| own == tag))
    }

    /// All tools.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// Returns `true` if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
