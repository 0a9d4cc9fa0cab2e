//! Paging by number, the only way the lists here are paged.

use std::ops::RangeInclusive;

use crate::answer::{Refusal, ResultInfo};

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// From 1.
    pub(crate) number: usize,
    /// Items on a page.
    pub(crate) size: usize,
}

impl Page {
    /// The items on this page; none beyond the last one.
    pub(crate) fn of<T>(self, items: Vec<T>) -> Vec<T> {
        items.into_iter().skip((self.number - 1).saturating_mul(self.size)).take(self.size).collect()
    }

    /// How many pages `total` items take.
    pub(crate) fn count(self, total: usize) -> usize {
        total.div_ceil(self.size)
    }

    /// The `result_info` of this page.
    pub(crate) fn info(self, count: usize, total_count: usize, total_pages: Option<usize>) -> ResultInfo {
        ResultInfo { count, page: self.number, per_page: self.size, total_count, total_pages }
    }
}

/// A numeric query parameter within its range.
pub(crate) fn number(name: &str, value: &str, range: RangeInclusive<usize>) -> Result<usize, Refusal> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        Refusal::bad_request(format!("{name} must be between {} and {}", range.start(), range.end()))
    })
}
