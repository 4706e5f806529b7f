"""Detectors whose exports pick their boxes themselves: how many there are, only a run tells.

Their networks are torchvision's and transformers' own, with few channels. The images are such that
there are boxes to pick.
"""

from functools import partial

import torch
import torchvision
import transformers
from torchvision.models import mobilenetv3
from torchvision.models.detection import (
    FCOS, FasterRCNN, MaskRCNN, RetinaNet, anchor_utils, backbone_utils, faster_rcnn, mask_rcnn, ssdlite)
from torchvision.models.detection.ssd import SSD
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign, feature_pyramid_network

from .sample import Sample, seeded

BOXES = ["boxes", "labels", "scores"]
IMAGE = (72, 88)
RESIZED = dict(min_size=64, max_size=96)


def image(rows, tokens):
    return torch.rand(3, *IMAGE, generator=seeded())


def images(count, size):
    return lambda rows, tokens: torch.rand(count, 3, size, size, generator=seeded())


@torch.no_grad()
def draw_weights(model, of_classes="", factor=1.0):
    """Wide enough that boxes and scores differ; what scores the classes by a factor of its own."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            continue
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * (2 / parameter[0].numel()) ** 0.5)
        if of_classes and of_classes in name:
            parameter *= factor
    return model


def mobilenet(size, width, norm):
    blocks, last = mobilenetv3._mobilenet_v3_conf(f"mobilenet_v3_{size}", width_mult=width, reduced_tail=True)
    return mobilenetv3.MobileNetV3(blocks, last, norm_layer=norm)


def pyramid(width, channels):
    features = mobilenet("small", width, FrozenBatchNorm2d).features
    at = [i for i, block in enumerate(features) if getattr(block, "_is_cn", False)][-1:] + [len(features) - 1]
    return backbone_utils.BackboneWithFPN(
        features, {str(i): str(level) for level, i in enumerate(at)}, [features[i].out_channels for i in at],
        channels, extra_blocks=feature_pyramid_network.LastLevelMaxPool())


def anchors(sizes=((16, 32),) * 3, ratios=((0.5, 1.0, 2.0),) * 3):
    return anchor_utils.AnchorGenerator(sizes, ratios)


class OfOneImage(torch.nn.Module):
    """torchvision's detectors take a list of images and answer with a dictionary each."""

    def __init__(self, model, outputs):
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, image):
        found = self.model([image])[0]
        return tuple(found[name] for name in self.outputs)


def of_one_image(model, of_classes, factor, outputs=BOXES):
    return Sample(
        OfOneImage(draw_weights(model, of_classes, factor), outputs), inputs={"image": image}, outputs=outputs,
        dynamic={0: "detections"}, dynamic_of={"image": {1: "height", 2: "width"}}, fixed=True)


def regions(channels, classes, hidden, **more):
    return dict(
        rpn_anchor_generator=anchors(), rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=20,
        box_roi_pool=MultiScaleRoIAlign(["0", "1"], 4, 2),
        box_head=faster_rcnn.TwoMLPHead(channels * 16, hidden),
        box_predictor=faster_rcnn.FastRCNNPredictor(hidden, classes), box_score_thresh=0.25, **RESIZED, **more)


def faster_rcnn_mobilenet(channels, classes, hidden, width):
    model = FasterRCNN(pyramid(width, channels), None, **regions(channels, classes, hidden))
    return of_one_image(model, "cls", 2.0)


def mask_rcnn_mobilenet(channels, classes, hidden, width):
    model = MaskRCNN(
        pyramid(width, channels), None,
        mask_roi_pool=MultiScaleRoIAlign(["0", "1"], 6, 2),
        mask_head=mask_rcnn.MaskRCNNHeads(channels, (channels,), 1),
        mask_predictor=mask_rcnn.MaskRCNNPredictor(channels, channels, classes),
        **regions(channels, classes, hidden))
    return of_one_image(model, "cls", 2.0, [*BOXES, "masks"])


def retinanet(channels, classes, width):
    model = RetinaNet(pyramid(width, channels), classes, anchor_generator=anchors(), topk_candidates=50,
                      score_thresh=0.3, detections_per_img=30, **RESIZED)
    return of_one_image(model, "classification_head", 1.5)


def fcos(channels, classes, width):
    model = FCOS(pyramid(width, channels), classes,
                 anchor_generator=anchors(((16,), (32,), (64,)), ((1.0,),) * 3), topk_candidates=50,
                 score_thresh=0.2, detections_per_img=30, **RESIZED)
    return of_one_image(model, "classification_head", 1.5)


def ssd_lite(classes, width, size):
    norm = partial(torch.nn.BatchNorm2d, eps=0.001, momentum=0.03)
    features = mobilenet("large", width, norm).features
    last_stride = [i for i, block in enumerate(features) if getattr(block, "_is_cn", False)][-1]
    backbone = ssdlite.SSDLiteFeatureExtractorMobileNet(features, last_stride, norm, width_mult=width)
    boxes = anchor_utils.DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    channels = torchvision.models.detection._utils.retrieve_out_channels(backbone, (size, size))
    head = ssdlite.SSDLiteHead(channels, boxes.num_anchors_per_location(), classes, norm)
    model = SSD(backbone, boxes, (size, size), classes, head=head, score_thresh=0.3, nms_thresh=0.55,
                detections_per_img=40, topk_candidates=60, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return of_one_image(model, "classification_head", 0.3)


class RTDetr(torch.nn.Module):
    """With what its image processor does behind it: the best scores of all classes, in pixels."""

    def __init__(self, kept, least_score, **sizes):
        super().__init__()
        backbone = transformers.RTDetrResNetConfig(
            layer_type="basic", out_features=["stage2", "stage3", "stage4"], **sizes.pop("backbone"))
        self.model = transformers.RTDetrForObjectDetection(
            transformers.RTDetrConfig(backbone_config=backbone, num_denoising=0, anchor_image_size=None, **sizes))
        self.kept, self.least_score = kept, least_score

    def forward(self, image, size):
        found = self.model(image)
        centre, extent = found.pred_boxes.split(2, -1)
        height, width = size.unbind(1)
        corners = torch.cat([centre - extent / 2, centre + extent / 2], -1)
        corners = corners * torch.stack([width, height, width, height], 1)[:, None]
        classes = found.logits.shape[-1]
        scores, places = found.logits.sigmoid().flatten(1).topk(self.kept)
        corners = corners.gather(1, (places // classes)[:, :, None].expand(-1, -1, 4))
        keep = scores[0] > self.least_score
        return corners[0][keep], (places % classes)[0][keep], scores[0][keep]


def rt_detr(image_size, **sizes):
    return Sample(
        draw_weights(RTDetr(**sizes)),
        inputs={"image": images(1, image_size), "size": lambda rows, tokens: torch.tensor([[480.0, 640.0]])},
        outputs=BOXES, dynamic={0: "detections"}, dynamic_of={"image": {}, "size": {}}, fixed=True)


class Yolo(torch.nn.Module):
    """A head as YOLO's: for each cell of three grids a box and scores of classes. The boxes are picked
    within the model, as ultralytics exports them with nms=True: those of each class apart, as their
    places are moved by the class, and zeros for those that are missing."""

    def __init__(self, classes, width, least_score, most):
        super().__init__()
        sizes = [3, width, width * 2, width * 3, width * 4, width * 4]
        self.stages = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, 2, 1), torch.nn.BatchNorm2d(b), torch.nn.SiLU())
            for a, b in zip(sizes, sizes[1:]))
        self.heads = torch.nn.ModuleList(torch.nn.Conv2d(size, 4 + classes, 1) for size in sizes[-3:])
        self.classes, self.least_score, self.most = classes, least_score, most

    def predict(self, x):
        rows = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i < 2:
                continue
            stride = 2 ** (i + 1)
            found = self.heads[i - 2](x)
            vertical, horizontal = torch.meshgrid(
                torch.arange(found.shape[2]), torch.arange(found.shape[3]), indexing="ij")
            cell = torch.stack([horizontal, vertical])[None] + 0.5
            near, far = found[:, :4].sigmoid().split(2, 1)
            boxes = torch.cat([cell - 2 * near, cell + 2 * far], 1) * stride
            rows.append(torch.cat([boxes, found[:, 4:].sigmoid()], 1).flatten(2))
        return torch.cat(rows, 2).transpose(1, 2)

    def forward(self, image):
        boxes, scores = self.predict(image).split([4, self.classes], 2)
        scores, labels = scores.max(2)
        every = []
        for box, score, label in zip(boxes, scores, labels):
            mask = score > self.least_score
            box, score, label = box[mask], score[mask], label[mask]
            apart = box + label[:, None] * (2 * max(image.shape[2:]))
            keep = torchvision.ops.nms(apart, score, 0.5)[:self.most]
            found = torch.cat([box[keep], score[keep, None], label[keep, None].to(box.dtype)], 1)
            every.append(torch.nn.functional.pad(found, (0, 0, 0, self.most - found.shape[0])))
        return torch.stack(every)


def yolo(image_size, **sizes):
    return Sample(
        draw_weights(Yolo(**sizes)), inputs={"image": images(2, image_size)}, outputs=["detections"],
        dynamic={0: "batch"}, dynamic_of={"image": {}, "detections": {}}, fixed=True)
