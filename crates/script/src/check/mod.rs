//! The checks of a file that parses: what is misnamed, unused, shadowed or never right.

pub(crate) mod final_statement;
pub(crate) mod lint;
pub(crate) mod misnamed;
pub(crate) mod names;
pub(crate) mod shadow;
