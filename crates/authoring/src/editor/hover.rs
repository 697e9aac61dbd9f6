//! Hover texts, definitions, and the signature of an unfinished call.

use super::infer::ValueFacts;
use super::outline::{Binding, Field, Sketch, Value};
use super::scan::Kind;
use super::suggestion::doc_of;
use crate::reference::about_module;
use std::ops::Range;
use valvehouse_core::text::optional;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{self, Function, Word};

/// The description of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hover {
    /// The range of the word.
    pub at: Range<usize>,
    /// The signatures, one per line.
    pub signature: String,
    /// The documentation, in Markdown.
    pub doc: String,
}

/// The position of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A range in the same file.
    Here(Range<usize>),
    /// A name in an imported file.
    In {
        /// The path of the import, without quotes.
        import: String,
        /// The function or constant; `None` for the file itself.
        name: Option<String>,
    },
}

/// A call that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The overloads: the signature, the parameters as they occur in it, and the documentation.
    pub ways: Vec<(String, Vec<String>, String)>,
    /// The index of the argument being typed, from 0.
    pub argument: usize,
}

/// The meaning of a word.
pub(super) enum Meaning<'a> {
    Host(Vec<&'static Function>),
    Member(Type, Vec<Word>),
    Own(&'a super::outline::Function),
    Bound(&'a Binding),
    Constant(&'a super::outline::Constant),
    Field(&'static str, &'a Field),
    Module(String),
    Imported(&'a super::outline::Import, Option<String>),
    Key(&'static reference::KeyDoc),
}

impl Sketch {
    /// Returns the description of the word at a byte. `modules` finds the file of an import.
    pub fn hover(&self, at: usize, modules: &dyn Fn(&str) -> Option<Self>) -> Option<Hover> {
        if let Some(hover) = self.hover_head(at) {
            return Some(hover);
        }
        let place = self.place_at(at)?;
        let (signature, doc) = match self.meaning(place)? {
            Meaning::Host(functions) => {
                let signatures: Vec<String> = functions.iter().map(|function| function.signature()).collect();
                (signatures.join("\n"), self.docs(&functions))
            }
            Meaning::Member(of, words) => {
                let signatures: Vec<String> = words.iter().map(|word| word.signature(&of.name())).collect();
                (signatures.join("\n"), optional(words.first(), |word| word.doc.clone()))
            }
            Meaning::Own(function) => {
                let entry = reference::entry(&function.name).map(|entry| entry.doc.to_owned());
                let docs: Vec<String> = [Some(function.doc.clone()), entry].into_iter().flatten().collect();
                (function.signature(), docs.join("\n\n").trim().to_owned())
            }
            Meaning::Bound(binding) => {
                let parameter = reference::PARAMETERS.iter().find(|key| key.name == binding.name);
                match self.bound(binding) {
                    ValueFacts::Type(kind) => {
                        let about = match kind {
                            Type::Handle(name) => reference::handle(name).map_or("", |handle| handle.about),
                            _ => "",
                        };
                        (
                            format!("{}: {kind}", binding.name),
                            parameter.map_or(about, |key| key.doc).to_owned(),
                        )
                    }
                    ValueFacts::Fields(constant) => (
                        format!("{}: {constant}", binding.name),
                        parameter.map_or("", |key| key.doc).to_owned(),
                    ),
                }
            }
            Meaning::Constant(constant) => {
                let known = reference::CONSTANTS.iter().find(|key| key.name == constant.name);
                let doc = known.map_or("", |key| key.doc).to_owned();
                (format!("const {}: {}", constant.name, constant.kind), doc)
            }
            Meaning::Field(of, field) => {
                (format!("{of}.{}: {} = {}", field.name, field.kind, field.written), field.doc.clone())
            }
            Meaning::Module(name) => (format!("{name}::"), about_module(&name).to_owned()),
            Meaning::Imported(import, name) => {
                let there = modules(&import.path)?;
                let function = name.and_then(|name| there.functions.iter().find(|one| one.name == name));
                match function {
                    Some(function) => (function.signature(), function.doc.clone()),
                    None => (format!("import \"{}\"", import.path), String::new()),
                }
            }
            Meaning::Key(key) => (format!("{}: {}", key.name, key.kind), key.doc.to_owned()),
        };
        Some(Hover { at: self.tokens[place].at.clone(), signature, doc })
    }

    /// Returns the declaration of the word at a byte.
    pub fn definition(&self, at: usize) -> Option<Place> {
        if let Some(import) = self.imports.iter().find(|import| touches(&import.path_at, at)) {
            return Some(Place::In { import: import.path.clone(), name: None });
        }
        if let Some(function) = self.function_named_at(at) {
            return Some(Place::Here(function));
        }
        match self.meaning(self.place_at(at)?)? {
            Meaning::Own(function) => Some(Place::Here(function.at.clone())),
            Meaning::Bound(binding) => Some(Place::Here(binding.at.clone())),
            Meaning::Constant(constant) => Some(Place::Here(constant.at.clone())),
            Meaning::Field(_, field) => Some(Place::Here(field.at.clone())),
            Meaning::Imported(import, name) => Some(Place::In { import: import.path.clone(), name }),
            Meaning::Host(_) | Meaning::Member(..) | Meaning::Module(_) | Meaning::Key(_) => None,
        }
    }

    /// Returns the range in which the file declares a function or constant.
    pub fn declared(&self, name: &str) -> Option<Range<usize>> {
        let function =
            self.functions.iter().find(|function| function.name == name).map(|function| &function.at);
        function.or(self.constant_named(name).map(|constant| &constant.at)).cloned()
    }

    /// Returns the call whose brackets enclose a byte.
    pub fn call(&self, at: usize) -> Option<OpenCall> {
        let bracket = self.around(at).filter(|bracket| self.word(*bracket) == "(")?;
        let name = bracket.checked_sub(1).filter(|name| self.is_word(*name))?;
        if name.checked_sub(1).is_some_and(|before| self.word(before) == "fn") {
            return None;
        }
        let written =
            |params: &[reference::Param]| params.iter().map(reference::Param::written).collect::<Vec<_>>();
        let ways: Vec<(String, Vec<String>, String)> = match self.meaning(name)? {
            Meaning::Host(functions) => {
                functions.iter().map(|one| (one.signature(), written(one.arguments()), doc_of(one))).collect()
            }
            Meaning::Member(of, words) => {
                let methods = words.iter().filter_map(|word| match &word.form {
                    reference::Form::Method(params) => {
                        Some((word.signature(&of.name()), written(params), word.doc.clone()))
                    }
                    _ => None,
                });
                methods.collect()
            }
            Meaning::Own(function) => {
                vec![(function.signature(), function.params.clone(), function.doc.clone())]
            }
            _ => Vec::new(),
        };
        let commas = (bracket + 1..self.tokens.len()).take_while(|place| self.tokens[*place].at.end <= at);
        let commas =
            commas.filter(|place| self.tokens[*place].within == Some(bracket) && self.word(*place) == ",");
        let argument = commas.count();
        (!ways.is_empty()).then_some(OpenCall { ways, argument })
    }

    /// Returns the description of a key of the opening comment.
    fn hover_head(&self, at: usize) -> Option<Hover> {
        let comment = self.comments.first().filter(|comment| touches(comment, at))?;
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1).max(comment.start);
        let line = self.text[start..comment.end].lines().next()?;
        let word = line.trim_start_matches("/*").trim_start();
        let start = start + (line.len() - word.len());
        let name = word.split(':').next().filter(|name| name.len() < word.len())?;
        let key = reference::frontmatter().iter().find(|key| key.name == name)?;
        let range = start..start + name.len();
        touches(&range, at).then(|| Hover {
            at: range,
            signature: format!(
                "{name}: {}",
                if key.values.is_empty() { key.kind.name() } else { key.values.join(" or ") }
            ),
            doc: key.doc.to_owned(),
        })
    }

    fn place_at(&self, at: usize) -> Option<usize> {
        let is_here = |place: &usize| self.is_word(*place) && touches(&self.tokens[*place].at, at);
        (0..self.tokens.len()).rfind(is_here)
    }

    fn docs(&self, functions: &[&'static Function]) -> String {
        let mut docs: Vec<String> = Vec::new();
        for doc in functions.iter().map(|function| doc_of(function)) {
            if !docs.contains(&doc) {
                docs.push(doc);
            }
        }
        docs.join("\n\n---\n\n")
    }

    pub(super) fn meaning(&self, place: usize) -> Option<Meaning<'_>> {
        let (name, at) = (self.word(place), self.tokens[place].at.start);
        let before = place.checked_sub(1).map_or("", |before| self.word(before));
        match before {
            "." | "?." => return self.member_meaning(place),
            "::" => return self.module_meaning(place),
            _ => {}
        }
        if self.word(place + 1) == "::" {
            let import = self.imports.iter().find(|import| import.alias == name);
            return Some(
                import.map_or_else(
                    || Meaning::Module(name.to_owned()),
                    |import| Meaning::Imported(import, None),
                ),
            );
        }
        if let Some(field) = self.declared_field(place) {
            return Some(field);
        }
        if self.is_key(place) {
            return None;
        }
        let is_called = self.word(place + 1) == "(";
        let binding = || {
            let mut seen = self.visible(at);
            seen.rfind(|binding| binding.name == name && !self.is_in_own_value(binding, place))
                .map(Meaning::Bound)
        };
        let own = || self.functions.iter().find(|function| function.name == name).map(Meaning::Own);
        let constant = || self.constant_named(name).map(Meaning::Constant);
        let import = || {
            let import = self.imports.iter().find(|import| import.alias == name && import.at.start == at);
            import.map(|import| Meaning::Imported(import, None))
        };
        let host = || {
            let named = reference::functions().iter().filter(|one| one.module.is_empty() && one.name == name);
            let own: Vec<&Function> = named.collect();
            (!own.is_empty() && is_called).then_some(Meaning::Host(own))
        };
        if is_called {
            own().or_else(host).or_else(binding)
        } else {
            binding().or_else(own).or_else(constant).or_else(import)
        }
    }

    fn member_meaning(&self, place: usize) -> Option<Meaning<'_>> {
        let name = self.word(place);
        match self.infer(self.chain_before(place - 1)) {
            ValueFacts::Fields(constant) => Some(Meaning::Field(constant, self.field(constant, name)?)),
            ValueFacts::Type(of) => {
                let words: Vec<Word> =
                    reference::members(of).into_iter().filter(|word| word.name == name).collect();
                let own = || {
                    self.functions
                        .iter()
                        .find(|function| function.name == name && self.word(place + 1) == "(")
                };
                match words.is_empty() {
                    // A function of the same file, called as a method.
                    true => own().map(Meaning::Own),
                    false => Some(Meaning::Member(of, words)),
                }
            }
        }
    }

    /// Returns `true` for a map key such as `x` in `#{ x: 1 }`, which is not a variable.
    fn is_key(&self, place: usize) -> bool {
        let map = self.tokens[place].within.filter(|map| self.word(*map) == "#{");
        self.word(place + 1) == ":" && map.is_some()
    }

    /// Returns `true` if a token is in the initial value of a variable, where the name refers to an earlier
    /// variable: `let x = x.y;`, `for x in x.list {`.
    fn is_in_own_value(&self, binding: &Binding, place: usize) -> bool {
        match &binding.value {
            Value::Is(tokens) => tokens.contains(&place) && self.word(tokens.end) == ";",
            Value::ElementOf(tokens) => tokens.contains(&place),
            _ => false,
        }
    }

    fn module_meaning(&self, place: usize) -> Option<Meaning<'_>> {
        let name = self.word(place);
        let path: Vec<&str> = self.chain_before(place - 1).step_by(2).map(|place| self.word(place)).collect();
        if let [alias] = path[..]
            && let Some(import) = self.imports.iter().find(|import| import.alias == alias)
        {
            return Some(Meaning::Imported(import, Some(name.to_owned())));
        }
        let module = path.join("::");
        let named = reference::functions().iter().filter(|one| one.module == module && one.name == name);
        let named: Vec<&Function> = named.collect();
        if named.is_empty() {
            return Some(Meaning::Module(format!("{module}::{name}")));
        }
        Some(Meaning::Host(named))
    }

    /// Returns the key of a constant's map at its declaration or use.
    fn declared_field(&self, place: usize) -> Option<Meaning<'_>> {
        if self.word(place + 1) != ":" || self.tokens[place].kind != Kind::Word {
            return None;
        }
        let at = &self.tokens[place].at;
        for key in reference::CONSTANTS {
            let constant = self.constant_named(key.name);
            if let Some(field) = constant.and_then(|own| own.fields.iter().find(|field| field.at == *at)) {
                return Some(Meaning::Field(key.name, field));
            }
        }
        let keys = self.tokens[place].within.and_then(|map| self.keys_of(map))?;
        keys.into_iter().find(|key| key.name == self.word(place)).map(Meaning::Key)
    }
}

pub(super) fn touches(range: &Range<usize>, at: usize) -> bool {
    range.start <= at && at <= range.end
}
