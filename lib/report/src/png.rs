//! A picture as points, in a file of the format PNG: for what shows no SVG.
//!
//! Shapes and letters are those of a toolkit for small displays, and nothing is smoothed. The file has twice as many points each way as the picture has
//! pixels; letters are 10 points wide and 20 high, which is about what the text of the other dress measures. A letter that the font (ISO 8859-15) lacks is
//! a question mark.

use crate::svg::{Anchor, Element, Picture};
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_15::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, Polyline, PrimitiveStyle, Rectangle, StyledDrawable};
use embedded_graphics::text::{Alignment, Text};
use std::convert::Infallible;

/// Points of a pixel, each way.
const SCALE: f64 = 2.0;
/// No picture is larger, in points each way; the toolkit squares distances in 32 bits.
const SIDE_MAX: f64 = 3_000.0;
/// So far outside, left and above, a place still is where it is.
const OUTSIDE: f64 = 1_000.0;

/// The file.
pub(crate) fn points(picture: &Picture) -> Vec<u8> {
    let (width, height) = picture.size();
    let mut board = Board::new(side(width), side(height));
    for element in picture.elements() {
        // A board cannot fail.
        let Ok(()) = draw(element, &mut board);
    }
    board.file()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to what fits")]
fn side(pixels: f64) -> u32 {
    (pixels * SCALE).round().clamp(1.0, SIDE_MAX) as u32
}

/// The points of a picture, white at first.
struct Board {
    size: Size,
    rgb: Vec<u8>,
}

impl Board {
    fn new(width: u32, height: u32) -> Board {
        Board { size: Size::new(width, height), rgb: vec![255; width as usize * height as usize * 3] }
    }

    fn file(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        // Memory takes all that is written to it, and the size is that of the points.
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.rgb));
        debug_assert!(written.is_ok(), "{written:?}");
        file
    }
}

impl OriginDimensions for Board {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Board {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else { continue };
            if x < self.size.width && y < self.size.height {
                let place = (y as usize * self.size.width as usize + x as usize) * 3;
                self.rgb[place..place + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "limited to what fits")]
fn at((x, y): (f64, f64)) -> Point {
    let whole = |value: f64| (value * SCALE).round().clamp(-OUTSIDE, SIDE_MAX) as i32;
    Point::new(whole(x), whole(y))
}

fn draw(element: &Element, board: &mut Board) -> Result<(), Infallible> {
    let letters = |text: &str, place, alignment, board: &mut Board| {
        let style = MonoTextStyle::new(&FONT_10X20, Rgb888::BLACK);
        Text::with_alignment(text, at(place), style, alignment).draw(board).map(|_| ())
    };
    match element {
        Element::Rect { at: place, size, fill, .. } => {
            let far = (place.0 + size.0, place.1 + size.1);
            let (corner, far) = (at(*place), at(far));
            let size = Size::new((far.x - corner.x).unsigned_abs(), (far.y - corner.y).unsigned_abs());
            Rectangle::new(corner, size).draw_styled(&PrimitiveStyle::with_fill(colour(fill)), board)
        }
        Element::Circle { at: place, radius, fill, .. } => {
            let circle = Circle::with_center(at(*place), side(2.0 * radius));
            circle.draw_styled(&PrimitiveStyle::with_fill(colour(fill)), board)
        }
        Element::Line { from, to, stroke } => Line::new(at(*from), at(*to))
            .draw_styled(&PrimitiveStyle::with_stroke(colour(stroke), side(1.0)), board),
        Element::Polyline { points, stroke } => {
            let points: Vec<Point> = points.iter().map(|point| at(*point)).collect();
            Polyline::new(&points).draw_styled(&PrimitiveStyle::with_stroke(colour(stroke), side(2.0)), board)
        }
        Element::Text { at, anchor, text } => {
            let alignment = match anchor {
                Anchor::Start => Alignment::Left,
                Anchor::Middle => Alignment::Center,
                Anchor::End => Alignment::Right,
            };
            letters(text, *at, alignment, board)
        }
        Element::Fixed { at, text } => letters(text, *at, Alignment::Left, board),
    }
}

/// `#0072b2`, or one of the few names that pictures use. Black for any other.
fn colour(word: &str) -> Rgb888 {
    let named = match word {
        "white" => "#ffffff",
        "grey" => "#808080",
        word => word,
    };
    let number = named.strip_prefix('#').and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    let [_, red, green, blue] = number.to_be_bytes();
    Rgb888::new(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::colour as nth;

    /// The points of a file, three bytes each, and how many stand in a row.
    fn read(file: &[u8]) -> (usize, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        (info.width as usize, rgb)
    }

    #[test]
    fn each_element_is_where_it_is_in_the_other_dress() {
        let mut picture = Picture::new(60.0, 40.0);
        picture.rect((10.0, 10.0), (5.0, 5.0), nth(0), "");
        picture.circle((30.0, 20.0), 3.0, "grey", "");
        picture.line((0.0, 39.0), (60.0, 39.0), "#333333");
        picture.text((50.0, 35.0), Anchor::End, "x");
        let (row, rgb) = read(&points(&picture));
        assert_eq!((row, rgb.len()), (120, 120 * 80 * 3));
        let point = |x: usize, y: usize| &rgb[(2 * y * row + 2 * x) * 3..][..3];
        assert_eq!(point(12, 12), [0x00, 0x72, 0xb2]);
        assert_eq!(point(30, 20), [0x80; 3]);
        assert_eq!(point(5, 39), [0x33; 3]);
        assert_eq!(point(1, 1), [0xff; 3]);
        let is_black = |(x, y): (usize, usize)| point(x, y) == [0; 3];
        let places = (44..50).flat_map(|x| (27..36).map(move |y| (x, y)));
        assert!(places.into_iter().any(is_black), "the letter stands left of its place");
    }

    #[test]
    fn what_lies_outside_is_cut_off_and_the_same_picture_has_the_same_bytes() {
        let draw = || {
            let mut picture = Picture::new(10.0, 10.0);
            picture.circle((-5.0, 1e9), 100.0, "black", "");
            picture.line((f64::NAN, 0.0), (5.0, -1e12), "red");
            picture.polyline(&[(0.0, 0.0), (1e6, 1e6)], nth(1));
            picture.text((9.0, 9.0), Anchor::Start, "µ\u{1f600}\n");
            points(&picture)
        };
        assert_eq!(draw(), draw());
        assert_eq!(read(&draw()).1.len(), 20 * 20 * 3);
    }
}
