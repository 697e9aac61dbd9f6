//! Errors of public functions: types that programs can tell apart, and documentation of each fallible function.
//!
//! `exceptions.txt` has ceilings for each package, `text-error crates/script 4` and `errors-doc crates/store 20`, which
//! only shrink. Tests are not counted.

use crate::silences;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, GenericArgument, ImplItemFn, ItemFn, ItemMod, PathArguments, ReturnType, Signature};
use syn::{TraitItemFn, Type, TypeParamBound, Visibility};

/// The number of public functions whose error is a text.
pub(crate) const TEXT_ERROR: &str = "text-error";
/// The number of public fallible functions without `# Errors`.
pub(crate) const ERRORS_DOC: &str = "errors-doc";

/// The number of public enums of errors that cannot get variants.
pub(crate) const CLOSED_ERROR: &str = "closed-error";

#[derive(Debug, Default, PartialEq)]
struct Findings {
    text_errors: Vec<String>,
    undocumented: Vec<String>,
}

#[test]
fn errors_of_public_functions_are_documented_types() {
    let of_type = "return an error type with `std::error::Error` instead of a text";
    let documented = "say in the section `# Errors` when the function fails";
    let open = "add `#[non_exhaustive]` to public enums of errors";
    silences::check_counts([(TEXT_ERROR, of_type), (ERRORS_DOC, documented), (CLOSED_ERROR, open)], |text| {
        let file = syn::parse_file(text).unwrap();
        let Findings { text_errors, undocumented } = found(&file);
        [text_errors.len(), undocumented.len(), closed_enums(file).len()]
    });
}

#[test]
fn closed_error_enums_are_found() {
    let text = "pub enum AError { B } #[non_exhaustive] pub enum CError { D } enum EError { F } pub enum GErrorKind { H } \
                pub enum Either<E> { I(E) } pub enum JError<E> { K(E) }";
    assert_eq!(closed_enums(syn::parse_file(text).unwrap()), ["AError", "GErrorKind"]);
}

/// Returns the public enums of errors that are not marked `#[non_exhaustive]`. Generic ones wrap the error of a caller,
/// who handles each variant.
fn closed_enums(file: syn::File) -> Vec<String> {
    let items = file.items.into_iter();
    let enums = items.filter_map(|item| match item {
        syn::Item::Enum(found) if is_public(&found.vis) && found.generics.params.is_empty() => Some(found),
        _ => None,
    });
    let closed = enums.filter(|found| !found.attrs.iter().any(|attr| attr.path().is_ident("non_exhaustive")));
    let names = closed.map(|found| found.ident.to_string());
    names.filter(|name| name.ends_with("Error") || name.ends_with("ErrorKind")).collect()
}

#[test]
fn errors_are_found_in_public_functions() {
    let text = r#"
        pub fn one() -> Result<(), String> {}
        /// Two.
        ///
        /// # Errors
        /// If it fails.
        pub fn two() -> Result<u8, Vec<String>> {}
        pub(crate) fn three() -> Result<(), String> {}
        impl A {
            pub async fn four(&self) -> Result<(), &'static str> {}
            fn five(&self) -> Result<(), String> {}
            pub fn six(&self) -> Option<Result<(), Error>> {}
        }
        impl B for A { fn seven(&self) -> Result<(), String> {} }
        pub trait B { fn seven(&self) -> Result<(), String>; }
        trait Own { fn eight(&self) -> Result<(), String>; }
        pub fn nine() -> fmt::Result {}
        pub fn eleven() -> BoxFuture<'static, Result<(), String>> {}
        pub fn twelve() -> impl Future<Output = Result<(), String>> + Send {}
        pub fn thirteen() -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {}
        pub fn fourteen() -> Box<dyn Fn()> {}
        #[cfg(test)]
        mod tests { pub fn ten() -> Result<(), String> {} }
    "#;
    let Findings { text_errors, undocumented } = found(&syn::parse_file(text).unwrap());
    assert_eq!(text_errors, ["one", "two", "four", "seven", "eleven", "twelve"]);
    assert_eq!(undocumented, ["one", "four", "seven", "nine", "eleven", "twelve", "thirteen"]);
}

fn found(file: &syn::File) -> Findings {
    let mut finder = Finder::default();
    if !is_of_tests(&file.attrs) {
        finder.visit_file(file);
    }
    finder.0
}

#[derive(Default)]
struct Finder(Findings);

impl Finder {
    fn look(&mut self, attrs: &[Attribute], signature: &Signature) {
        let ReturnType::Type(_, returned) = &signature.output else { return };
        let Some(error) = error_of(returned) else { return };
        let name = signature.ident.to_string();
        if error.is_some_and(is_text) {
            self.0.text_errors.push(name.clone());
        }
        let says = |attr: &Attribute| attr.to_token_stream().to_string().contains("# Errors");
        if !attrs.iter().any(says) {
            self.0.undocumented.push(name);
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if is_public(&function.vis) && !is_of_tests(&function.attrs) {
            self.look(&function.attrs, &function.sig);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        // The methods of a trait are documented in the trait.
        if block.trait_.is_none() && !is_of_tests(&block.attrs) {
            visit::visit_item_impl(self, block);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if is_public(&function.vis) && !is_of_tests(&function.attrs) {
            self.look(&function.attrs, &function.sig);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) {
            visit::visit_item_trait(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.look(&function.attrs, &function.sig);
    }
}

/// Returns the error type of a `Result`, also of a future's; `Some(None)` for an alias that hides it.
fn error_of(returned: &Type) -> Option<Option<&Type>> {
    let path = match returned {
        Type::Path(path) => &path.path,
        Type::ImplTrait(of) => return of.bounds.iter().find_map(of_future),
        Type::TraitObject(of) => return of.bounds.iter().find_map(of_future),
        _ => return None,
    };
    let last = path.segments.last()?;
    if ["BoxFuture", "LocalBoxFuture", "Pin", "Box"].iter().any(|future| last.ident == future) {
        return types_in(&last.arguments).next_back().and_then(error_of);
    }
    if last.ident != "Result" {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Some(None) };
    Some(match arguments.args.iter().nth(1) {
        Some(GenericArgument::Type(error)) => Some(error),
        _ => None,
    })
}

/// Returns the error type of `Future<Output = Result<..>>`.
fn of_future(bound: &TypeParamBound) -> Option<Option<&Type>> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let last = bound.path.segments.last().filter(|last| last.ident == "Future")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(output) => error_of(&output.ty),
        _ => None,
    })
}

fn types_in(arguments: &PathArguments) -> impl DoubleEndedIterator<Item = &Type> {
    let arguments = match arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(one) => Some(one),
        _ => None,
    })
}

fn is_text(error: &Type) -> bool {
    let text = error.to_token_stream().to_string().replace(' ', "");
    matches!(text.as_str(), "String" | "Vec<String>") || text.ends_with("str") && text.starts_with('&')
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_of_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.to_token_stream().to_string().replace(' ', "").contains("cfg(test)"))
}
