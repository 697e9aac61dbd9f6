//! Completion: suggestions for a position.

use super::infer::ValueFacts;
use super::outline::Sketch;
use super::scan::Kind;
use super::suggestion::{Suggestion, SuggestionKind as Is, escaped};
use crate::reference::about_module;
use std::collections::BTreeSet;
use std::ops::Range;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{self, KeyDoc, is_map};

/// Keywords of the language, and their snippets.
const WORDS: [(&str, &str); 14] = [
    ("let", "let ${1:name} = $0;"),
    ("if", "if ${1:condition} {\n    $0\n}"),
    ("else", "else {\n    $0\n}"),
    ("for", "for ${1:item} in ${2:list} {\n    $0\n}"),
    ("while", "while ${1:condition} {\n    $0\n}"),
    ("switch", "switch ${1:value} {\n    $0\n}"),
    ("try", "try {\n    $0\n} catch (e) {\n}"),
    ("return", "return $0;"),
    ("throw", "throw $0;"),
    ("break", "break;"),
    ("continue", "continue;"),
    ("true", "true"),
    ("false", "false"),
    ("in", "in "),
];

/// Declarations at the top level of a file.
const TOP: [(&str, &str, &str); 4] = [
    (
        "const Valves",
        "const Valves = #{\n    ${1:name}: #{ value: ${2:4}, description: \"$0\" },\n};",
        "Settings that operators may change.",
    ),
    (
        "const UserValves",
        "const UserValves = #{\n    ${1:name}: #{ value: ${2:4}, description: \"$0\" },\n};",
        "Settings that each user may change.",
    ),
    (
        "const parameters",
        "const parameters = #{\n    ${1:name}: #{ type: \"string\", required: true, description: \"$0\" },\n};",
        "The arguments of a tool.",
    ),
    ("import", "import \"lib/${1:words}\" as ${1:words};", "A module of the project."),
];

impl Sketch {
    /// Returns suggestions for a byte position. `modules` finds the file of an import.
    pub fn suggestions(&self, at: usize, modules: &dyn Fn(&str) -> Option<Self>) -> Vec<Suggestion> {
        if let Some(comment) = self.comments.iter().find(|comment| self.is_in_comment(comment, at)) {
            let is_first = self.text[..comment.start].trim_start_matches('\u{feff}').trim().is_empty();
            let head = self.text.get(comment.start + 2..at).filter(|_| is_first && self.is_block(comment));
            return head.map_or_else(Vec::new, |head| self.in_head(head));
        }
        let text = self.tokens.iter().position(|token| {
            let text = &self.text[token.at.clone()];
            let is_closed =
                text.len() > 1 && text.ends_with(['"', '`', '\'']) || !text.starts_with(['"', '`', '\'']);
            token.kind == Kind::Text
                && token.at.start < at
                && (at < token.at.end || at == token.at.end && !is_closed)
        });
        if let Some(text) = text {
            let map = self.tokens[text].within;
            return map.and_then(|map| self.values(map, text, "")).into_iter().flatten().collect();
        }
        // The word being typed is skipped.
        let next = self
            .tokens
            .iter()
            .position(|token| token.at.end >= at && token.kind == Kind::Word || token.at.start >= at);
        let next = next.unwrap_or(self.tokens.len());
        match next.checked_sub(1) {
            Some(before) if matches!(self.word(before), "." | "?.") => self.behind_dot(before, next),
            Some(before) if self.word(before) == "::" => self.behind_colons(before, modules),
            Some(before) if self.word(before) == "fn" => {
                reference::entries().iter().map(|entry| Suggestion::entry(entry, true)).collect()
            }
            Some(before) if self.word(before) == "const" && self.tokens[before].within.is_none() => {
                reference::CONSTANTS.iter().map(|key| Suggestion::key(key, Is::Constant, " = $0;")).collect()
            }
            _ => self.in_place(at, next),
        }
    }

    fn is_block(&self, comment: &Range<usize>) -> bool {
        self.text[comment.clone()].starts_with("/*")
    }

    /// Returns `true` if a position is within a comment. A line comment includes its end; a block comment ends with
    /// its closing mark.
    fn is_in_comment(&self, comment: &Range<usize>, at: usize) -> bool {
        let is_closed = self.is_block(comment) && self.text[comment.clone()].ends_with("*/");
        comment.start < at && (at < comment.end || at == comment.end && !is_closed)
    }

    /// Returns suggestions for the opening comment.
    fn in_head(&self, before: &str) -> Vec<Suggestion> {
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        let Some((key, value)) = line.split_once(':') else {
            return reference::frontmatter()
                .iter()
                .map(|key| Suggestion::key(key, Is::Keyword, ": "))
                .collect();
        };
        let words: BTreeSet<&str> = value.split(',').map(str::trim).collect();
        match key.trim() {
            "requirements" => {
                let open = reference::CAPABILITIES.iter().filter(|key| !words.contains(key.name));
                open.map(|key| Suggestion::new(key.name, Is::Value, "capability").doc(key.doc)).collect()
            }
            "allow_hosts" => self.constant_named("Valves").map_or_else(Vec::new, |valves| {
                let texts = valves.fields.iter().filter(|field| field.kind == Type::Text);
                texts
                    .map(|field| Suggestion::new(format!("valve:{}", field.name), Is::Value, &field.doc))
                    .collect()
            }),
            key => {
                let known = reference::frontmatter().iter().find(|known| known.name == key);
                let values = known.map_or(&[][..], |known| known.values);
                values.iter().map(|value| Suggestion::new(*value, Is::Value, "")).collect()
            }
        }
    }

    fn behind_dot(&self, dot: usize, next: usize) -> Vec<Suggestion> {
        let chain = self.chain_before(dot);
        let name = self.word(chain.start).to_owned();
        let is_name = chain.len() == 1;
        match self.infer(chain) {
            ValueFacts::Fields(constant) => self.constant_named(constant).map_or_else(Vec::new, |constant| {
                let detail = |kind: Type, written: &str| format!("{kind} = {written}");
                let fields = constant.fields.iter();
                fields
                    .map(|field| {
                        Suggestion::new(&field.name, Is::Field, detail(field.kind, &field.written))
                            .doc(&field.doc)
                    })
                    .collect()
            }),
            ValueFacts::Type(kind) => {
                let mut names = BTreeSet::new();
                let members = reference::members(kind);
                let first = members.iter().filter(|word| names.insert(word.name.clone()));
                let mut all: Vec<Suggestion> = first.map(|word| Suggestion::word(word, kind)).collect();
                if is_name && (kind == Type::Any || is_map(kind)) {
                    let own = self.words_behind(&name, next).into_iter().filter(|word| !names.contains(word));
                    all.extend(
                        own.map(|word| Suggestion::new(word, Is::Property, "A word used in this file")),
                    );
                }
                all
            }
        }
    }

    /// Returns the words that follow this name elsewhere in the file.
    fn words_behind(&self, name: &str, but: usize) -> BTreeSet<String> {
        let places = (0..self.tokens.len()).filter(|place| {
            self.word(*place) == name
                && self.word(place + 1) == "."
                && self.is_word(place + 2)
                && place + 2 != but
        });
        places.map(|place| self.word(place + 2).to_owned()).collect()
    }

    fn behind_colons(&self, colons: usize, modules: &dyn Fn(&str) -> Option<Self>) -> Vec<Suggestion> {
        let chain = self.chain_before(colons);
        let path: Vec<&str> = chain.step_by(2).map(|place| self.word(place)).collect();
        let module = path.join("::");
        if let Some(import) = self.imports.iter().find(|import| import.alias == module) {
            return modules(&import.path).map_or_else(Vec::new, |module| module.shared());
        }
        let mut names = BTreeSet::new();
        let own = reference::functions().iter().filter(|function| function.module == module);
        let own = own.filter(|function| names.insert(&function.name));
        let mut all: Vec<Suggestion> = own.map(Suggestion::function).collect();
        let prefix = format!("{module}::");
        let below: BTreeSet<&str> = reference::functions()
            .iter()
            .filter_map(|function| function.module.strip_prefix(&prefix))
            .collect();
        all.extend(below.into_iter().map(|name| {
            Suggestion::new(name, Is::Module, format!("{prefix}{name}")).insert(format!("{name}::"))
        }));
        all
    }

    /// Returns the declarations of this file that importing files may use.
    fn shared(&self) -> Vec<Suggestion> {
        let functions = self.functions.iter().map(|function| {
            let call = if function.params.is_empty() { "()" } else { "($0)" };
            Suggestion::new(&function.name, Is::Function, function.signature())
                .doc(&function.doc)
                .insert(format!("{}{call}", function.name))
        });
        let constants = self.constants.iter();
        let constants =
            constants.map(|constant| Suggestion::new(&constant.name, Is::Constant, constant.kind.name()));
        functions.chain(constants).collect()
    }

    /// Returns suggestions for a position in code that nothing before it restricts.
    fn in_place(&self, at: usize, next: usize) -> Vec<Suggestion> {
        let around = self.around(at);
        let Some(bracket) = around else { return self.at_top() };
        if let Some(parameters) = self.hook_parameters(bracket, next) {
            return parameters;
        }
        if let Some(keys) = self.map_keys(bracket, next) {
            return keys;
        }
        self.in_code(at)
    }

    /// Returns the innermost open bracket around a byte.
    pub(super) fn around(&self, at: usize) -> Option<usize> {
        let mut open = None;
        for (place, token) in self.tokens.iter().enumerate().take_while(|(_, token)| token.at.end <= at) {
            let is_open = matches!(self.word(place), "(" | "[" | "?[" | "{" | "#{" | "${");
            if is_open && token.pair.is_none_or(|pair| self.tokens[pair].at.start >= at) {
                open = Some(place);
            }
        }
        open
    }

    /// Returns the possible parameters at `fn inlet(body, |`, for a function that the host calls.
    fn hook_parameters(&self, bracket: usize, next: usize) -> Option<Vec<Suggestion>> {
        let name = bracket.checked_sub(1)?;
        let is_declared = self.word(bracket) == "(" && name > 0 && self.word(name - 1) == "fn";
        if !is_declared {
            return None;
        }
        let Some(entry) = reference::entry(self.word(name)) else { return Some(Vec::new()) };
        let end = self.end_of(bracket).min(self.tokens.len());
        let there: BTreeSet<&str> =
            (bracket + 1..end).filter(|place| *place != next).map(|place| self.word(place)).collect();
        let subject = entry.subject.map(|(name, kind)| Suggestion::new(name, Is::Variable, kind.name()));
        let context = (entry.name == "handler").then(|| Suggestion::new("ctx", Is::Variable, "context"));
        let parameters = reference::PARAMETERS.iter().map(|key| Suggestion::key(key, Is::Variable, ""));
        let all = subject.into_iter().chain(context).chain(parameters);
        Some(all.filter(|suggestion| !there.contains(suggestion.label.as_str())).collect())
    }

    /// Returns the keys of a valve, of an argument or of an entry of `tools()`.
    fn map_keys(&self, bracket: usize, next: usize) -> Option<Vec<Suggestion>> {
        let before = self.word(next.checked_sub(1)?);
        let keys = self.keys_of(bracket)?;
        if before == ":" {
            return self.values(bracket, next, "\"");
        }
        let is_key = matches!(before, "#{" | ",");
        is_key.then(|| {
            let end = self.end_of(bracket).min(self.tokens.len());
            let there: BTreeSet<&str> =
                (bracket + 1..end).map(|place| self.word(place).trim_matches('"')).collect();
            let open = keys.iter().filter(|key| !there.contains(key.name) || self.word(next) == key.name);
            open.map(|key| Suggestion::key(key, Is::Property, ": ")).collect()
        })
    }

    /// Returns the fixed values, in these quotes, of the key of a map before a place.
    fn values(&self, map: usize, place: usize, quote: &str) -> Option<Vec<Suggestion>> {
        let key = place.checked_sub(2).filter(|key| self.word(key + 1) == ":")?;
        let key = self.keys_of(map)?.into_iter().find(|known| known.name == self.word(key))?;
        let shown = |value: &&str| Suggestion::new(format!("{quote}{value}{quote}"), Is::Value, key.name);
        (!key.values.is_empty()).then(|| key.values.iter().map(shown).collect())
    }

    pub(super) fn keys_of(&self, map: usize) -> Option<Vec<&'static KeyDoc>> {
        if let Some(options) = self.options_of(map) {
            return Some(options.keys());
        }
        let outer = self.tokens[map].within?;
        let is_map = self.word(map) == "#{";
        let named = |place: usize| place.checked_sub(2).map_or("", |name| self.word(name));
        let keys = match (self.word(outer), named(outer)) {
            ("#{", "Valves" | "UserValves") if is_map => Some(reference::VALVE_KEYS),
            ("#{", "parameters" | "properties") if is_map => Some(reference::PARAMETER_KEYS),
            ("[", _) if is_map => {
                let at = self.tokens[map].at.start;
                let lists = |function: &super::outline::Function| {
                    function.name == "tools" && function.whole.contains(&at)
                };
                self.functions.iter().any(lists).then_some(reference::TOOL_KEYS)
            }
            _ => None,
        };
        keys.map(|keys| keys.iter().collect())
    }

    /// Returns the keys of a map that is an argument of a function of the host, or is thrown.
    fn options_of(&self, map: usize) -> Option<reference::FunctionOptions> {
        let before = map.checked_sub(1)?;
        if self.word(map) != "#{" {
            return None;
        }
        if self.word(before) == "throw" {
            return reference::options_of("throw");
        }
        let open = self.tokens[map].within.filter(|open| self.word(*open) == "(")?;
        let name = open.checked_sub(1)?;
        let mut first = name;
        while first >= 2 && self.word(first - 1) == "::" {
            first -= 2;
        }
        let is_method = first > 0 && matches!(self.word(first - 1), "." | "?." | "fn");
        let words: Vec<&str> = (first..=name).map(|place| self.word(place)).collect();
        if is_method { None } else { reference::options_of(&words.concat()) }
    }

    fn at_top(&self) -> Vec<Suggestion> {
        let there: BTreeSet<&str> = self.functions.iter().map(|function| function.name.as_str()).collect();
        let entries = reference::entries().iter().filter(|entry| !there.contains(entry.name));
        let mut all: Vec<Suggestion> = entries.map(|entry| Suggestion::entry(entry, false)).collect();
        all.extend(
            TOP.map(|(label, insert, doc)| Suggestion::new(label, Is::Frame, "").doc(doc).insert(insert)),
        );
        all.push(Suggestion::new("fn", Is::Keyword, "").insert("fn ${1:name}($2) {\n    $0\n}"));
        all.push(Suggestion::new("const", Is::Keyword, "").insert("const ${1:NAME} = $0;"));
        all
    }

    fn in_code(&self, at: usize) -> Vec<Suggestion> {
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for binding in self.visible(at).rev().filter(|binding| binding.at.end < at) {
            if names.insert(binding.name.as_str()) {
                let detail = match self.bound(binding) {
                    ValueFacts::Type(kind) => kind.name(),
                    ValueFacts::Fields(constant) => constant.to_owned(),
                };
                all.push(Suggestion::new(&binding.name, Is::Variable, detail));
            }
        }
        let own = self.functions.iter().filter(|function| reference::entry(&function.name).is_none());
        for function in own.filter(|function| names.insert(&function.name)) {
            let call = if function.params.is_empty() { "()" } else { "($0)" };
            let insert = format!("{}{call}", escaped(&function.name));
            let suggestion = Suggestion::new(&function.name, Is::Function, function.signature());
            all.push(suggestion.doc(&function.doc).insert(insert));
        }
        for constant in self.constants.iter().filter(|constant| names.insert(&constant.name)) {
            all.push(Suggestion::new(&constant.name, Is::Constant, constant.kind.name()));
        }
        for import in self.imports.iter().filter(|import| names.insert(&import.alias)) {
            let insert = format!("{}::", escaped(&import.alias));
            all.push(Suggestion::new(&import.alias, Is::Module, &import.path).insert(insert));
        }
        let modules: BTreeSet<&str> =
            reference::functions().iter().filter_map(|function| function.module.split("::").next()).collect();
        for module in modules.into_iter().filter(|module| !module.is_empty() && names.insert(module)) {
            let suggestion = Suggestion::new(module, Is::Module, format!("{module}::"));
            all.push(suggestion.doc(about_module(module)).insert(format!("{module}::")));
        }
        let global = reference::functions().iter().filter(|function| {
            let is_alone = function.module.is_empty() && !function.is_method;
            is_alone && function.name != "sleep"
        });
        for function in global {
            if names.insert(&function.name) {
                all.push(Suggestion::function(function));
            }
        }
        all.extend(WORDS.map(|(word, insert)| Suggestion::new(word, Is::Keyword, "").insert(insert)));
        all
    }
}
