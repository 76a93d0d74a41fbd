# Trains the default model, split over three virtual CPU devices.
#
#   docker build -t estimator-mp .
#   docker run --rm estimator-mp
#
# Another command, or other flags, replace "train":
#
#   docker run --rm estimator-mp train --mesh=data:2,stage:3
#   docker run --rm estimator-mp plan --mesh=stage:2
FROM python:3.12-slim

RUN useradd --create-home --uid 1000 user
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY . .
# The version is that of the checkout; hadolint takes "." for a name.
# hadolint ignore=DL3013
RUN pip install '.[train]'

USER 1000
WORKDIR /home/user
ENTRYPOINT ["estimator-mp"]
CMD ["train"]
