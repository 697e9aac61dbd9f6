//! The declared valves of a plugin.

use super::field::Field;

/// The text that stands for a secret wherever it could be read.
pub const MASK: &str = "********";

/// The declared settings of a plugin, in the order of their declaration.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(super) fields: Vec<Field>,
}

impl Schema {
    /// The settings, in the order of their declaration.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// One setting.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The setting probably meant by a misspelt name.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        crate::words::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }
}
