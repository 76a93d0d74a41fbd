"""tf.image: resizing with 1.15's corners and centers, colors, crops, boxes."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(9).uniform(size=(2, 5, 6, 3)).astype(np.float32)


def _x():
  return tf.placeholder_with_default(_X, [None, 5, 6, 3])


def resizing():
  x = _x()
  size = [7, 4]
  return {
    "bilinear": tf.image.resize_bilinear(x, size),
    "bilinear_corners": tf.image.resize_bilinear(x, size, align_corners=True),
    "bilinear_centers": tf.image.resize_bilinear(
      x, size, half_pixel_centers=True
    ),
    "nearest": tf.image.resize_nearest_neighbor(x, size),
    "nearest_corners": tf.image.resize_nearest_neighbor(x, size, True),
    "bicubic": tf.image.resize_bicubic(x, size),
    "bicubic_corners": tf.image.resize_bicubic(x, size, align_corners=True),
    "area": tf.image.resize_area(x, size),
    "images": tf.image.resize_images(x, size),
    "images_corners": tf.image.resize_images(x, size, align_corners=True),
    "images_nearest": tf.image.resize_images(
      x, size, tf.image.ResizeMethod.NEAREST_NEIGHBOR
    ),
    "images_bicubic": tf.image.resize_images(
      x, size, method=tf.image.ResizeMethod.BICUBIC
    ),
    "images_area": tf.image.resize_images(x, size, tf.image.ResizeMethod.AREA),
    "images_ratio": tf.image.resize_images(
      x, [20, 12], preserve_aspect_ratio=True
    ),
    "same_size": tf.image.resize_images(x, [5, 6]),
    "resize": tf.image.resize(x, size),
    "pad": tf.image.resize_image_with_pad(x, 8, 8),
    "crop_or_pad": tf.image.resize_image_with_crop_or_pad(x, 3, 9),
    "crop_and_pad": tf.image.resize_with_crop_or_pad(x, 8, 4),
  }


def crops():
  x = _x()
  return {
    "central": tf.image.central_crop(x[0], 0.5),
    "crop": tf.image.crop_to_bounding_box(x, 1, 1, 3, 4),
    "pad": tf.image.pad_to_bounding_box(x, 1, 2, 8, 9),
    "boxes": tf.image.crop_and_resize(
      x, [[0.1, 0.1, 0.9, 0.8], [0.0, 0.3, 1.0, 1.0]], [1, 0], [3, 3]
    ),
    "boxes_named": tf.image.crop_and_resize(
      image=x, boxes=[[0.1, 0.1, 0.9, 0.8]], box_ind=[1], crop_size=[3, 3]
    ),
    "glimpse": tf.image.extract_glimpse(x, [3, 3], [[0.1, 0.0], [0.5, -0.3]]),
    "drawn": tf.image.draw_bounding_boxes(
      x, [[[0.1, 0.1, 0.9, 0.8]], [[0.0, 0.3, 1.0, 0.9]]]
    ),
    "kept": tf.image.non_max_suppression(
      [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [2.0, 2.0, 3.0, 3.0]],
      [0.9, 0.8, 0.7],
      3,
    ),
  }


def colors():
  x = _x()
  return {
    "gray": tf.image.rgb_to_grayscale(x),
    "rgb": tf.image.grayscale_to_rgb(x[..., :1]),
    "hsv": tf.image.rgb_to_hsv(x),
    "back": tf.image.hsv_to_rgb(x),
    "yiq": tf.image.rgb_to_yiq(x),
    "yuv": tf.image.rgb_to_yuv(x),
    "brightness": tf.image.adjust_brightness(x, 0.2),
    "contrast": tf.image.adjust_contrast(x, 1.5),
    "hue": tf.image.adjust_hue(x, 0.1),
    "saturation": tf.image.adjust_saturation(x, 0.5),
    "gamma": tf.image.adjust_gamma(x, 0.7),
    "standard": tf.image.per_image_standardization(x[0]),
    "standards": tf.image.per_image_standardization(x),
    "uint8": tf.image.convert_image_dtype(x, tf.uint8, saturate=True),
    "float": tf.image.convert_image_dtype(
      tf.constant([[3, 200]], tf.uint8), tf.float32
    ),
  }


def turns():
  x = _x()
  return {
    "left": tf.image.flip_left_right(x),
    "up": tf.image.flip_up_down(x[0]),
    "turn": tf.image.rot90(x, 3),
    "transpose": tf.image.transpose_image(x),
    "transposed": tf.image.transpose(x[0]),
  }


def measures():
  x = _x()
  y = x * 0.9
  dy, dx = tf.image.image_gradients(x)
  return {
    "psnr": tf.image.psnr(x, y, 1.0),
    "variation": tf.image.total_variation(x),
    "dy": dy,
    "dx": dx,
    "sobel": tf.image.sobel_edges(x),
    "ssim": tf.image.ssim(
      tf.image.resize_bilinear(x, [16, 16]),
      tf.image.resize_bilinear(y, [16, 16]),
      1.0,
    ),
  }


def random_images():
  x = _x()
  begin, size, _ = tf.image.sample_distorted_bounding_box(
    [5, 6, 3], [[[0.0, 0.0, 1.0, 1.0]]], seed=2
  )
  return {
    "left": tf.image.random_flip_left_right(x, seed=1),
    "one": tf.image.random_flip_left_right(x[0], seed=1),
    "up": tf.image.random_flip_up_down(x[0]),
    "brightness": tf.image.random_brightness(x, 0.3, seed=3),
    "contrast": tf.image.random_contrast(x, 0.5, 1.5),
    "hue": tf.image.random_hue(x, 0.2),
    "saturation": tf.image.random_saturation(x, 0.5, 1.5),
    "crop": tf.random_crop(x, [1, 3, 3, 3], seed=4),
    "image_crop": tf.image.random_crop(x[0], [3, 3, 3]),
    "begin": begin,
    "size": size,
  }


def files():
  x = tf.image.convert_image_dtype(_x()[0], tf.uint8, saturate=True)
  png = tf.image.encode_png(x)
  return {
    "png": tf.image.decode_png(png, channels=3),
    "image": tf.image.decode_image(png, channels=1),
    "jpeg": tf.image.decode_jpeg(tf.image.encode_jpeg(x, quality=100)),
    "bmp": tf.shape(tf.image.decode_png(png)),
    "is_jpeg": tf.image.is_jpeg(png),
    "old": tf.decode_raw(tf.constant([b"abcd"]), tf.uint8),
  }
