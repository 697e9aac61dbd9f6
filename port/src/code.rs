//! Fragments of script code.

use crate::kinds::Type;

/// The precedence of the operators; a higher number binds tighter.
pub(crate) mod strength {
    pub(crate) const ANY: u8 = 0;
    pub(crate) const OR: u8 = 3;
    pub(crate) const AND: u8 = 4;
    pub(crate) const EQUAL: u8 = 5;
    pub(crate) const IN: u8 = 6;
    pub(crate) const COMPARE: u8 = 7;
    pub(crate) const COALESCE: u8 = 8;
    pub(crate) const RANGE: u8 = 9;
    pub(crate) const ADD: u8 = 10;
    pub(crate) const MULTIPLY: u8 = 11;
    pub(crate) const POWER: u8 = 12;
    pub(crate) const SHIFT: u8 = 13;
    pub(crate) const UNARY: u8 = 14;
    pub(crate) const ATOM: u8 = 15;
}

/// An expression of the script.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) text: String,
    strength: u8,
    pub(crate) kind: Type,
    /// `true` if the value may be `()`, so that its members are read with `?.`.
    pub(crate) is_optional: bool,
}

impl Code {
    pub(crate) fn new(text: impl Into<String>, strength: u8, kind: Type) -> Self {
        Self { text: text.into(), strength, kind, is_optional: false }
    }

    pub(crate) fn atom(text: impl Into<String>, kind: Type) -> Self {
        Self::new(text, strength::ATOM, kind)
    }

    /// Returns the code as an operand, in parentheses if it binds weaker than `least`.
    pub(crate) fn at(&self, least: u8) -> String {
        // Rhai would parse a block in front of an operator as a separate statement.
        let is_block = self.text.starts_with('{') && least > strength::ANY;
        if self.strength < least || is_block { format!("({})", self.text) } else { self.text.clone() }
    }

    /// Returns the code as the left side of `.`.
    pub(crate) fn owner(&self) -> String {
        self.at(strength::ATOM)
    }

    pub(crate) fn typed(mut self, kind: Type) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn optional(mut self, is_optional: bool) -> Self {
        self.is_optional = is_optional;
        self
    }

    /// Returns `true` if the code may be repeated without a side effect: it consists of names and fields.
    pub(crate) fn is_simple(&self) -> bool {
        self.text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter))
    }

    /// Returns the code that calls a method of the value.
    pub(crate) fn method(&self, name: &str, args: &[String], kind: Type) -> Self {
        let point = if self.is_optional { "?." } else { "." };
        Self::atom(format!("{}{point}{name}({})", self.owner(), args.join(", ")), kind)
            .optional(self.is_optional)
    }

    /// Returns the code that reads a property of the value.
    pub(crate) fn property(&self, name: &str, kind: Type) -> Self {
        if !crate::names::is_key(name) {
            return self.index(&crate::names::quoted(name), kind);
        }
        let point = if self.is_optional { "?." } else { "." };
        Self::atom(format!("{}{point}{name}", self.owner()), kind).optional(self.is_optional)
    }

    /// Returns the code that reads an element of the value.
    pub(crate) fn index(&self, index: &str, kind: Type) -> Self {
        let mark = if self.is_optional { "?" } else { "" };
        Self::atom(format!("{}{mark}[{index}]", self.owner()), kind).optional(self.is_optional)
    }
}

/// Returns the code that calls a function.
pub(crate) fn call(name: &str, args: &[String], kind: Type) -> Code {
    Code::atom(crate::value::wrapped(&format!("{name}("), args, ")").replace(",\n)", "\n)"), kind)
}
