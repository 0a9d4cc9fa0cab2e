//! Builds collections with little memory and little program.

/// Builds a collection by inserting one item after the other. `collect` sorts first, and sorting one more type costs 7
/// KB of program.
pub(crate) fn inserted<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

/// Adds an item to a list that mostly keeps only one, for which `push` would reserve room for four.
pub(crate) fn push_lean<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}
