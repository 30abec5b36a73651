//! The README shows programs that are built and run.

#[test]
fn the_first_program_of_the_readme_is_the_quickstart() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```rust,no_run\n").expect("it has a program");
    let (program, _) = rest.split_once("```\n").expect("that ends");
    let (_, quickstart) =
        include_str!("../examples/quickstart.rs").split_once("\n\n").expect("it has a head");
    assert_eq!(program, quickstart);
}
