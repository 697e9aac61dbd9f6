//! The elements of an HTML page, and CSS selectors that find them.
//!
//! Parsers that build the tree of browsers (`html5ever`) consist of dozens of packages; small ones find tags within
//! scripts or distinguish upper and lower case of names. This one reads elements and their parents, with the end tags
//! that HTML allows to be omitted, in a time that is linear in the length of any page.

mod attributes;
mod selector;
mod tree;

pub(super) use selector::Selectors;
pub(super) use tree::{Element, RAW, Tree};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn elements_are_nested_properly_for_any_page(
            html in r#"(<(a|b|p|li|ul|td|tr|table|script|svg|div)( x='?[a<>/é]{0,2}'?)? ?/?>|</(a|b|p|li|ul|td|table|script|div)>|[<>/!"'=&;é ]|<!--){0,60}"#,
            css in r#"([a-d]|li|[*#.:\[\]()=,>+~ "'\\é^]|:not\(|:nth-child\(|2n|\[x=){0,12}"#,
        ) {
            let tree = Tree::read("select", &html).unwrap();
            for element in &tree.elements {
                prop_assert!(tree.html(element).contains(tree.content(element)));
                if let Some(parent) = element.parent {
                    prop_assert!(tree.html(&tree.elements[parent]).contains(tree.html(element)));
                }
                prop_assert!(element.attributes().count() <= html.len());
            }
            if let Ok(selectors) = Selectors::read("select", &css) {
                prop_assert!(selectors.matches(&tree).unwrap().len() <= tree.elements.len());
            }
            let all = Selectors::read("select", "*").unwrap().matches(&tree).unwrap();
            prop_assert_eq!(all.len(), tree.elements.len());
        }
    }
}
