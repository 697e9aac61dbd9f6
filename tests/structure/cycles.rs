//! Cycles in a graph.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Returns the strongly connected components of more than one node.
pub(crate) fn find<'a>(arrows: impl Iterator<Item = (&'a Path, &'a Path)>) -> Vec<BTreeSet<&'a Path>> {
    let mut next: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().push(to);
        next.entry(to).or_default();
    }
    let reach: BTreeMap<&Path, BTreeSet<&Path>> =
        next.keys().map(|from| (*from, reached(from, &next))).collect();
    let mut cycles: Vec<BTreeSet<&Path>> = Vec::new();
    for (from, reached) in &reach {
        if !reached.contains(from) || cycles.iter().any(|cycle| cycle.contains(from)) {
            continue;
        }
        cycles.push(reached.iter().copied().filter(|to| reach[to].contains(from)).collect());
    }
    cycles
}

fn reached<'a>(from: &Path, next: &BTreeMap<&'a Path, Vec<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut open = next[from].clone();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            open.extend(&next[node]);
        }
    }
    found
}

#[test]
fn a_cycle_is_found_without_its_predecessors() {
    let arrows = [("in", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "out")];
    let found = find(arrows.iter().map(|(from, to)| (Path::new(from), Path::new(to))));
    let expected: BTreeSet<&Path> = ["a", "b", "c"].iter().map(Path::new).collect();
    assert_eq!(found, [expected]);
}
