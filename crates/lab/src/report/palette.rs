//! Colours of series, as classes of the page's style sheet, which has them for light and for dark.

/// How many series can be told apart by colour; further ones begin anew.
pub(super) const COLORS: usize = 8;

/// The name of the part of a stack that is not divided further; it is grey everywhere.
pub(super) const OTHER: &str = "other";

/// The class of the series with this number.
pub(super) fn class(index: usize) -> String {
    format!("c{}", index % COLORS)
}

/// The classes of a stack's layers: in order, and grey for [`OTHER`].
pub(super) fn layer_classes<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut next = 0;
    names
        .map(|name| match name {
            OTHER => "grey".to_owned(),
            _ => {
                next += 1;
                class(next - 1)
            }
        })
        .collect()
}
