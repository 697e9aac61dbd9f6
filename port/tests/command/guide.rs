//! The page of the guide on porting, executed from its first to its last block.

#[allow(dead_code)] // this page has no host and no hooks
#[path = "../../../tests/it/guide/page.rs"]
mod page;

use crate::project::Project;
use page::{Does, fits, steps};
use std::path::Path;

#[test]
fn the_guide_page_on_porting_works() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/porting.md");
    let project = Project::new();
    for step in steps(&path) {
        let place = format!("{}:{}", path.display(), step.line);
        match step.does {
            Does::Saves { path, text } => project.write(&path, &text),
            Does::Types { text, code, output } => {
                let seen = project.types(&text).ends(code).out;
                if let Some(shown) = output {
                    assert!(fits(&shown, &seen), "{place}: it shows\n{shown}\nbut one sees\n{seen}");
                }
            }
            other => panic!("{place}: nobody tries {other:?}"),
        }
    }
    project.run("check --strict").ends(0);
    project.run("test").ends(0);
}
